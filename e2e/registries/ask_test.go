//go:build registries

package registries

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// send sends a JSON body, nil for none, to a registry. A token is Consul's.
func send(method, url, token string, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(method, url, bytes.NewReader(data))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Consul-Token", token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if response.StatusCode >= 300 {
		err = errors.Join(err, fmt.Errorf("%s %s: %s: %s", method, url, response.Status, said))
	}
	return err
}

// get returns a page of discovery, or why there is none.
func (w *world) get(path string) string {
	body, err := lab.Get("http://" + w.discovery.HTTP + path)
	if err != nil {
		return err.Error()
	}
	return body
}

// eventually waits until something holds a text. A source that has failed several times is started again after ten seconds.
func (w *world) eventually(want string, got func() string) {
	w.T.Helper()
	w.check(lab.Eventually(time.Minute, func() error {
		if now := got(); !strings.Contains(now, want) {
			return fmt.Errorf("%.2000s does not hold %q", now, want)
		}
		return nil
	}))
}

// settled waits until discovery is ready and has nothing to say of any source.
func (w *world) settled() {
	w.T.Helper()
	w.check(lab.Eventually(time.Minute, func() error {
		if page := w.get("/ready?verbose"); !strings.HasPrefix(page, "ready\n") || strings.Contains(page, "source ") {
			return fmt.Errorf("discovery says %.2000s", page)
		}
		return nil
	}))
}

// known returns what discovery knows of an endpoint: "healthy 1" is its health and its weight.
func (w *world) known(host, address string) string {
	var hosts []struct {
		Host      string
		Endpoints []struct {
			Address, Health string
			Weight          int
		}
	}
	page := w.get("/debug/endpointz")
	if err := json.Unmarshal([]byte(page), &hosts); err != nil {
		return page
	}
	for _, h := range hosts {
		for _, e := range h.Endpoints {
			if h.Host == host && e.Address == address {
				return fmt.Sprint(e.Health, " ", e.Weight)
			}
		}
	}
	return "not known"
}

// field returns a field of an endpoint of a cluster, as the sidecar's Envoy shows it, "" for none.
func (w *world) field(cluster, address, name string) string {
	page, err := lab.Get("http://" + w.admin + "/clusters")
	if err != nil {
		return err.Error()
	}
	_, rest, _ := strings.Cut(page, "\n"+cluster+"::"+address+"::"+name+"::")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

// timed makes changes one after another, and prints how long each took to arrive in Envoy.
func (w *world) timed(what string, n int, next func(i int) (change func() error, arrived func() bool)) {
	w.T.Helper()
	var took []time.Duration
	for i := range n {
		change, arrived := next(i)
		began := time.Now()
		w.check(change())
		w.check(lab.Eventually(30*time.Second, func() error {
			if !arrived() {
				return fmt.Errorf("%s, change %d, did not arrive", what, i)
			}
			return nil
		}))
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	w.T.Logf("%s is in Envoy after %s (%s to %s, n=%d)", what, round(took[n/2]), round(took[0]), round(took[n-1]), n)
}

// counter stands before a registry and counts the questions.
type counter struct {
	url   string
	asked atomic.Int64
}

func (w *world) counter(target string) *counter {
	w.T.Helper()
	to, err := url.Parse(target)
	w.check(err)
	c := &counter{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorLog = log.New(io.Discard, "", 0) // discovery leaves in the midst of its questions
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		c.asked.Add(1)
		proxy.ServeHTTP(out, r)
	}))
	w.T.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *counter) count() int64 { return c.asked.Load() }
