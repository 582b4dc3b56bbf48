package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// objects answers like an API server that has one generation of each object.
type objects struct {
	url      string
	mu       sync.Mutex
	gone     map[string]bool
	refuse   map[string][]int // codes of the next answers, by method and end of path
	statuses map[string][]string
	requests int
}

func (o *objects) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests++
	body, err := io.ReadAll(in.Body)
	if err != nil {
		return
	}
	out.Header().Set("Content-Type", "application/json")
	status := func(code int, reason string) {
		out.WriteHeader(code)
		fmt.Fprintf(out, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "message": "not now", "code": %d}`, reason, code)
	}
	parts := strings.Split(in.URL.Path, "/")
	for end, codes := range o.refuse {
		if method, path, _ := strings.Cut(end, " "); in.Method == method && strings.HasSuffix(in.URL.Path, path) && len(codes) > 0 {
			o.refuse[end] = codes[1:]
			status(codes[0], map[int]string{409: "Conflict", 403: "Forbidden", 500: "InternalError"}[codes[0]])
			return
		}
	}
	switch {
	case strings.HasSuffix(in.URL.Path, "/events"):
		out.WriteHeader(http.StatusCreated)
		fmt.Fprint(out, `{"kind": "Event", "apiVersion": "events.k8s.io/v1", "metadata": {"name": "e"}}`)
	case in.Method == http.MethodGet:
		name := parts[len(parts)-1]
		if o.gone[name] {
			status(http.StatusNotFound, "NotFound")
			return
		}
		fmt.Fprintf(out, `{"kind": "Sidecar", "apiVersion": "networking.istio.io/v1", "metadata": {"name": %q, "namespace": "n", "uid": "u-%s", "generation": 1, "resourceVersion": "7"}}`, name, name)
	default:
		name := parts[len(parts)-2]
		o.statuses[name] = append(o.statuses[name], string(body))
		_, _ = out.Write(body)
	}
}

func (o *objects) written(name string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.statuses[name])
}

func (o *objects) asked() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.requests
}

// knows reports whether s has the answer to its write of an object's status. A leader that ends before leaves the write to the next one;
// a note that is gone before is taken back when a watch shows the status, and here is none.
func (s *Statuses) knows(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _, wrong := s.wanted(key)
	return !wrong
}

// log is a log that one goroutine writes and another reads.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func newStatuses(t *testing.T, refuse map[string][]int) (*Statuses, *objects, *log) {
	t.Helper()
	server := &objects{gone: map[string]bool{}, refuse: refuse, statuses: map[string][]string{}}
	at := httptest.NewServer(server)
	t.Cleanup(at.Close)
	server.url = at.URL
	text := &log{}
	return &Statuses{
		Cluster: "c1", Instance: "i1", Log: slog.New(slog.NewTextHandler(text, nil)),
	}, server, text
}

// lead runs s until the returned function is called.
func lead(t *testing.T, s *Statuses, server *objects) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- s.Run(ctx, func() (*kube.Client, error) { return kube.New(&rest.Config{Host: server.url}, "test") })
	}()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("it ends with %v", err)
		}
	}
}

func within(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.After(time.Minute); !is(); {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			t.Fatal(what)
		}
	}
}

func refTo(name string) kube.Ref {
	return kube.Ref{
		Resource: schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "sidecars"},
		Kind:     "Sidecar", Namespace: "n", Name: name, UID: "u-" + name, Generation: 1,
	}
}

func broken(name string) tracked {
	return tracked{ref: refTo(name), problems: []config.Problem{{Severity: config.Error, Path: "spec.egress", Message: "is wrong"}}}
}

// Before it leads nothing is written, from then on each object once: also for problems found before. After a conflict
// the object is read again, a deleted object is skipped, and a missing right is logged once for any number of objects.
func TestStatuses(t *testing.T) {
	s, server, text := newStatuses(t, map[string][]int{
		"PATCH /conflict/status": {409}, "PATCH /refused/status": {403, 403}, "PATCH /more/status": {403}, "POST /events": {403, 403},
	})
	server.gone["vanished"] = true
	for _, name := range []string{"before", "conflict", "vanished", "refused", "more"} {
		s.put("Sidecar/n/"+name, broken(name))
	}
	known := broken("known")
	known.said = &kube.Said{Status: "False", Reason: refused, Message: "spec.egress: is wrong", Generation: 1}
	s.put("Sidecar/n/known", known)
	s.put("Sidecar/n/sound", tracked{ref: refTo("sound")})
	if server.requests != 0 {
		t.Errorf("before it leads there are %d requests", server.requests)
	}
	stop := lead(t, s, server)
	for _, name := range []string{"before", "conflict", "refused", "more"} {
		within(t, name+" is not written", func() bool { return len(server.written(name)) > 0 })
	}
	s.put("Sidecar/n/later", broken("later"))
	within(t, "later is not written", func() bool { return len(server.written("later")) > 0 && s.knows("Sidecar/n/later") })
	stop()
	for name, writes := range server.statuses {
		if len(writes) != 1 || !strings.Contains(writes[0], `"resourceVersion":"7"`) || !strings.Contains(writes[0], `"observedGeneration":1`) {
			t.Errorf("%s is written %d times, as %s", name, len(writes), writes)
		}
	}
	if n := len(server.statuses); n != 5 {
		t.Errorf("%d objects are written, want 5: %v", n, server.statuses)
	}
	if n := text.count("statuses of Kubernetes' objects are not written"); n != 1 {
		t.Errorf("that statuses are not written is logged %d times, want once:\n%s", n, &text.text)
	}

	// Another leader writes nothing again.
	before := server.asked()
	again := lead(t, s, server)
	s.put("Sidecar/n/last", broken("last"))
	within(t, "last is not written", func() bool { return len(server.written("last")) > 0 && s.knows("Sidecar/n/last") })
	again()
	for name, writes := range server.statuses {
		if len(writes) != 1 {
			t.Errorf("%s is written %d times", name, len(writes))
		}
	}
	if n := server.asked() - before; n > 10 {
		t.Errorf("the next leader needs %d requests", n)
	}
}

// Notes of a mesh are written, and removed when they no longer apply; notes of another cluster's objects, and notes
// that depend on the proxies of this replica, are not written.
func TestStatusesOfNotes(t *testing.T) {
	s, server, _ := newStatuses(t, nil)
	s.put("Sidecar/n/seen", tracked{ref: refTo("seen")}) // the kind is known
	defer lead(t, s, server)()
	note := func(name, cluster string, code model.Code) model.Note {
		return model.Note{Code: code, Path: "spec.egress", Message: "nobody has it", Meta: model.Meta{
			Kind: "Sidecar", Namespace: "n", Name: name, Origin: model.Origin{Record: &model.Record{Cluster: cluster, UID: "u-" + name, Generation: 1}},
		}}
	}
	ours := note("ours", "c1", model.UnknownHost)
	mesh := model.New(slices.Values([]model.Group{{Objects: []*model.Object{{Meta: ours.Meta}}}}))
	s.Judged(mesh, []model.Note{
		ours, note("theirs", "c2", model.UnknownHost), note("here", "c1", model.RefusedByProxy),
		note("ours", "c1", model.Warned), note("here", "c1", model.Warned), // which is among the problems of the object
	})
	within(t, "the note is not written", func() bool { return len(server.written("ours")) == 1 && s.knows("Sidecar/n/ours") })
	s.Judged(mesh, []model.Note{ours})
	s.Judged(mesh, nil)
	within(t, "the note is not taken back", func() bool { return len(server.written("ours")) == 2 })
	if w := server.written("ours"); !strings.Contains(w[0], `"reason":"Doubtful"`) || strings.Count(w[0], "nobody has it") != 1 || !strings.Contains(w[1], `"reason":"Accepted"`) {
		t.Errorf("it is written as %s", w)
	}
	if len(server.written("theirs"))+len(server.written("here")) > 0 {
		t.Error("it writes what is not its own")
	}
}

// A thousand objects with errors are written at the documented rate, and writing stops at once.
func TestStatusesKeepTheirPace(t *testing.T) {
	s, server, _ := newStatuses(t, nil)
	for i := range 1000 {
		s.put(fmt.Sprintf("Sidecar/n/x%d", i), broken(fmt.Sprintf("x%d", i)))
	}
	began := time.Now()
	stop := lead(t, s, server)
	within(t, "20 are not written", func() bool {
		server.mu.Lock()
		defer server.mu.Unlock()
		return len(server.statuses) >= 20
	})
	stop()
	most := 3 * (writesAtOnce + int(time.Since(began).Seconds()*writesPerSecond) + 2)
	if n := server.asked(); n > most {
		t.Errorf("there were %d requests in %s, want at most %d", n, time.Since(began), most)
	}
}

// Without the API server Run ends with the error, and its caller starts it again.
func TestStatusesWithoutAServer(t *testing.T) {
	s := &Statuses{}
	if err := s.Run(t.Context(), func() (*kube.Client, error) { return nil, errors.New("no kubeconfig") }); err == nil || s.queue != nil {
		t.Errorf("it ends with %v, and a queue: %t", err, s.queue != nil)
	}
}
