//go:build kube

package kube

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// door passes requests on to the API server, and counts them. It may be shut, and it may answer as an older server does.
type door struct {
	t       testing.TB
	address string
	handler http.Handler
	server  *http.Server

	mu      sync.Mutex
	old     func(http.ResponseWriter) // answers requests for streamed lists; nil to pass them on
	refuse  int                       // the status of every answer; 0 to pass requests on
	calls   map[string]int            // by what was asked: "list pods"
	expired int                       // answers that said that a version is too old
	last    time.Time                 // of the last call
}

// startDoor opens one that takes every request for a user's: nothing of it is encrypted.
func startDoor(t testing.TB, c *cluster, as *rest.Config) *door {
	t.Helper()
	transport, err := rest.TransportFor(as)
	check(t, err)
	d := &door{t: t, address: "127.0.0.1:" + port(t), calls: map[string]int{}}
	pass := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "https", Host: c.address}) },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode == http.StatusGone {
				d.note("", true)
			}
			r.Body = &reader{r.Body, d}
			return nil
		},
	}
	d.handler = http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		verb, query := "list", in.URL.Query()
		switch {
		case query.Get("sendInitialEvents") == "true":
			verb = "stream"
		case query.Get("watch") != "":
			verb = "watch"
		}
		d.note(verb+" "+in.URL.Path[strings.LastIndex(in.URL.Path, "/")+1:], false)
		d.mu.Lock()
		old, refuse := d.old, d.refuse
		d.mu.Unlock()
		if refuse != 0 {
			out.Header().Set("Retry-After", "1")
			http.Error(out, http.StatusText(refuse)+", please try again later.", refuse) // as an API server does
			return
		}
		if old != nil && verb == "stream" {
			old(out)
			return
		}
		pass.ServeHTTP(out, in)
	})
	d.open()
	t.Cleanup(d.shut)
	return d
}

// note counts an answer of 410, or a call.
func (d *door) note(call string, expired bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if expired {
		d.expired++
	} else {
		d.calls[call]++
		d.last = time.Now()
	}
}

// open listens, again, at the door's address.
func (d *door) open() {
	d.t.Helper()
	l, err := net.Listen("tcp", d.address)
	check(d.t, err)
	d.server = &http.Server{Handler: d.handler}
	go d.server.Serve(l) //nolint:errcheck // it is closed
}

// shut cuts all connections, and refuses new ones, as an address does where nothing listens any more.
func (d *door) shut() { d.server.Close() }

// refuseAll cuts all connections, and answers every request with a status from now on; 0 passes them on again.
func (d *door) refuseAll(status int) {
	d.shut()
	d.mu.Lock()
	d.refuse = status
	d.mu.Unlock()
	d.open()
}

// kubeconfig is the path of a file that leads to the door.
func (d *door) kubeconfig() string {
	d.t.Helper()
	path := filepath.Join(d.t.TempDir(), "kubeconfig")
	check(d.t, os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: \"http://"+d.address+
		"\"}}]\ncontexts: [{name: test, context: {cluster: c}}]\ncurrent-context: test\n"), 0o600))
	return path
}

// settled waits until there was no call for longer than a second: a reflector takes a watch that ends sooner for a broken
// one, and lists at once.
func (d *door) settled() {
	d.t.Helper()
	check(d.t, lab.Eventually(time.Minute, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if calm := time.Since(d.last); calm < 1500*time.Millisecond {
			return fmt.Errorf("the last call was %s ago", calm)
		}
		return nil
	}))
}

// count is how often something was asked whose name begins so.
func (d *door) count(prefix string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for call, times := range d.calls {
		if strings.HasPrefix(call, prefix) {
			n += times
		}
	}
	return n
}

// forget begins to count anew.
func (d *door) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.calls)
}

// String is what was asked, and how often, by verb.
func (d *door) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	verbs := map[string]int{}
	for call, n := range d.calls {
		verb, _, _ := strings.Cut(call, " ")
		verbs[verb] += n
	}
	return fmt.Sprintf("%d streamed lists, %d lists, %d watches", verbs["stream"], verbs["list"], verbs["watch"])
}

// tooOld is how many answers said that a version is too old.
func (d *door) tooOld() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.expired
}

// answering answers as a server that does not stream lists: with a code, or in the stream.
func answering(code int, stream bool) func(http.ResponseWriter) {
	status := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"sendInitialEvents: Forbidden","reason":"Invalid","code":%d}`, code)
	return func(out http.ResponseWriter) {
		out.Header().Set("Content-Type", "application/json")
		if stream {
			fmt.Fprintf(out, "{\"type\":\"ERROR\",\"object\":%s}\n", status)
			return
		}
		out.WriteHeader(code)
		fmt.Fprint(out, status)
	}
}

// reader looks for the events of watches that are too old. Their text is plain in both encodings.
type reader struct {
	io.ReadCloser
	door *door
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	for _, text := range []string{"too old resource version", "watch is too old", "has been compacted"} {
		if bytes.Contains(p[:n], []byte(text)) {
			r.door.note("", true)
		}
	}
	return n, err
}
