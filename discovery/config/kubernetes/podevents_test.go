package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// podsOf returns a mesh with Pods, as CLUSTER/NAMESPACE/NAME, and a workload of another registry.
func podsOf(pods ...string) *model.Mesh {
	g := model.Group{Workloads: []*model.Workload{{Registry: "Consul", Cluster: "c1", Namespace: "shop", Name: "consul", Addresses: []string{"10.0.9.9"}}}}
	for i, pod := range pods {
		parts := strings.Split(pod, "/")
		g.Workloads = append(g.Workloads, &model.Workload{
			Registry: "Kubernetes", Cluster: parts[0], Namespace: parts[1], Name: parts[2], Addresses: []string{fmt.Sprint("10.0.0.", i+1)},
			Origin: model.Origin{Record: &model.Record{Cluster: parts[0], UID: "uid-of-" + parts[2]}},
		})
	}
	return model.New(slices.Values([]model.Group{g}))
}

func ofProxy(code model.Code, name, message string) model.Note {
	return model.Note{Code: code, Meta: model.Meta{Kind: "Proxy", Namespace: "shop", Name: name}, Message: message}
}

// Notes of proxies are Events of Pods of this cluster, by namespace and name; other notes are not.
func TestPodEvents(t *testing.T) {
	mesh := podsOf("c1/shop/web", "c2/shop/far", "c1/shop/both", "c2/shop/both")
	withheld := ofProxy(model.WithheldSecret, "web", "is requested, want the account among them\n")
	withheld.Path = "secret door"
	elsewhere := ofProxy(model.OldEnvoy, "web", "of another namespace")
	elsewhere.Meta.Namespace = "bank"
	got := podEvents(mesh, "c1", []model.Note{
		withheld, ofProxy(model.OldEnvoy, "both", "is old"), ofProxy(model.OldEnvoy, "far", "is old"), ofProxy(model.OldEnvoy, "consul", "is old"),
		ofProxy(model.OldEnvoy, "a-machine", "is old"), elsewhere,
		{Code: model.OldEnvoy, Meta: model.Meta{Kind: "Namespace", Name: "shop"}, Message: "9 further"},
		{Code: model.EmptySelector, Meta: model.Meta{Kind: "Sidecar", Namespace: "shop", Name: "web"}, Message: "is no Pod"},
	})
	want := map[string]podEvent{}
	for _, e := range []podEvent{
		{"shop", "web", "uid-of-web", "WithheldSecret", "secret door: is requested, want the account among them", false},
		{"shop", "both", "uid-of-both", "OldEnvoy", "is old", false},
	} {
		want[e.key()] = e
	}
	if !maps.Equal(got, want) {
		t.Errorf("the Events are %v, want %v", got, want)
	}
}

// events answers like an API server that has one Event of a name.
type events struct {
	mu       sync.Mutex
	refuse   []int // codes of the next answers
	stored   map[string]kube.ObjectEvent
	requests int
}

func (s *events) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	var e kube.ObjectEvent
	if err := json.NewDecoder(in.Body).Decode(&e); err != nil || in.Method != http.MethodPost || !strings.HasSuffix(in.URL.Path, "/namespaces/"+e.Namespace+"/events") {
		out.WriteHeader(http.StatusBadRequest)
		return
	}
	code := http.StatusCreated
	if _, there := s.stored[e.Name]; there {
		code = http.StatusConflict
	}
	if len(s.refuse) > 0 {
		code, s.refuse = s.refuse[0], s.refuse[1:]
	}
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(code)
	if code != http.StatusCreated {
		reason := map[int]string{403: "Forbidden", 409: "AlreadyExists", 404: "NotFound"}[code]
		fmt.Fprintf(out, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "message": "no", "code": %d}`, reason, code)
		return
	}
	s.stored[e.Name] = e
	_ = json.NewEncoder(out).Encode(e)
}

// has returns the Events, as POD REASON NOTE.
func (s *events) has() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.stored {
		out = append(out, fmt.Sprintf("%s/%s %s %s: %s", e.Regarding.Kind, e.Regarding.Name, e.Type, e.Reason, e.Note))
	}
	slices.Sort(out)
	return out
}

func (s *events) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// tellPods runs a PodEvents against a server until stop is called.
func tellPods(t *testing.T, server *events) (p *PodEvents, text *log, stop func()) {
	t.Helper()
	at := httptest.NewServer(server)
	text = &log{}
	p = &PodEvents{Cluster: "c1", Instance: "i1", Log: slog.New(slog.NewTextHandler(text, nil))}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- p.Run(ctx, func() (*kube.Client, error) { return kube.New(&rest.Config{Host: at.URL}, "test") })
	}()
	return p, text, func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("it ends with %v", err)
		}
		at.Close()
	}
}

// done reports whether nothing is to be written any more.
func (p *PodEvents) done() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !slices.ContainsFunc(slices.Collect(maps.Values(p.wanted)), func(e podEvent) bool { return !e.written })
}

// An Event is written once: not again while its note stays, by another judgement, another replica or after a restart. What fails is
// tried again and logged once; what is mended meanwhile is not.
func TestPodEventsAreWrittenOnce(t *testing.T) {
	server := &events{stored: map[string]kube.ObjectEvent{}, refuse: []int{403, 403}}
	mesh := podsOf("c1/shop/web", "c1/shop/api")
	notes := []model.Note{ofProxy(model.OldEnvoy, "web", "is old, want 1.40"), ofProxy(model.WrongDomain, "api", "is of another cluster")}
	p, text, stop := tellPods(t, server)
	p.Judged(mesh, notes)
	want := []string{"Pod/api Warning WrongDomain: is of another cluster", "Pod/web Warning OldEnvoy: is old, want 1.40"}
	within(t, "the Events are not written", func() bool { return slices.Equal(server.has(), want) })
	within(t, "that they are written again is not logged", func() bool { return text.count("written again") == 1 })
	if n := text.count("Events of Pods are not written"); n != 1 {
		t.Errorf("two refusals are logged %d times:\n%s", n, &text.text)
	}
	server.mu.Lock()
	for _, e := range server.stored {
		if uid := "uid-of-" + e.Regarding.Name; string(e.Regarding.UID) != uid || e.Regarding.APIVersion != "v1" || e.Namespace != "shop" || e.ReportingInstance != "i1" {
			t.Errorf("the Event is %+v", e)
		}
	}
	server.mu.Unlock()
	before := server.asked()
	p.Judged(mesh, notes)
	p.Judged(mesh, append(notes, ofProxy(model.OldEnvoy, "api", "is old")))
	within(t, "a new one is not written", func() bool { return len(server.has()) == 3 })
	if n := server.asked() - before; n != 1 {
		t.Errorf("a new note makes %d requests, want one", n)
	}
	stop()

	server.mu.Lock()
	server.refuse = nil
	server.mu.Unlock()
	again, text, stop := tellPods(t, server)
	again.Judged(mesh, notes)
	within(t, "the next process does not ask", again.done)
	stop()
	if len(server.has()) != 3 || text.text.Len() > 0 {
		t.Errorf("the next process has %q, and logs\n%s", server.has(), &text.text)
	}
}

// A proxy that says something else of itself at each connection makes a bounded number of Events, and a Pod that is gone leaves
// nothing behind.
func TestPodEventsAreBounded(t *testing.T) {
	server := &events{stored: map[string]kube.ObjectEvent{}}
	p, text, stop := tellPods(t, server)
	mesh := podsOf("c1/shop/web")
	for i := range maxPodEvents {
		p.Judged(mesh, []model.Note{ofProxy(model.OldEnvoy, "web", fmt.Sprint("is version ", i))})
		within(t, "an Event is not written", func() bool { return len(server.has()) == i+1 })
	}
	for i := range 3 {
		p.Judged(mesh, []model.Note{ofProxy(model.OldEnvoy, "web", fmt.Sprint("is another ", i))})
		within(t, "it is not decided", p.done)
	}
	stop()
	if n, said := server.asked(), text.count("further Events of a Pod"); n != maxPodEvents || said != 1 {
		t.Errorf("there are %d requests, and the bound is logged %d times:\n%s", n, said, &text.text)
	}
	p.spent["uid-of-web"] = allowance{since: time.Now().Add(-podEventsWindow), written: maxPodEvents}
	if p.Judged(podsOf(), nil); len(p.spent)+len(p.wanted) > 0 {
		t.Errorf("of a Pod that is gone it keeps %v and %v", p.spent, p.wanted)
	}
}
