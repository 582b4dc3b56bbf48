package consul

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/sourcetest"
)

// fake implements the part of Consul's protocol that the source uses: indexes, blocking queries, and the lists.
type fake struct {
	*httptest.Server
	sourcetest.Questions
	mu      sync.Mutex
	index   map[string]uint64                   // of the lists
	entries map[string]map[string]*serviceEntry // by service and instance id
	nodes   map[string]*nodeEntry
	changed chan struct{}
}

const (
	catalogPath = "/v1/catalog/services"
	statePath   = "/v1/health/state/any"
	nodesPath   = "/v1/catalog/nodes"
	servicePath = "/v1/health/service/"
)

func newFake(t *testing.T) *fake {
	f := &fake{}
	f.empty()
	f.Server = sourcetest.Serve(t, f)
	return f
}

// empty removes all its content.
func (f *fake) empty() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.index = map[string]uint64{catalogPath: 10, statePath: 10, nodesPath: 10}
	f.entries, f.nodes = map[string]map[string]*serviceEntry{}, map[string]*nodeEntry{}
	f.changed = make(chan struct{})
	f.Reset()
}

// change changes the content of the fake. The indexes of these lists become the next one.
func (f *fake) change(do func(), lists ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	next := f.highest() + 1
	for _, list := range lists {
		f.index[list] = next
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fake) indexOf(path string) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.index[path]
}

func (f *fake) highest() (most uint64) {
	for _, index := range f.index {
		most = max(most, index)
	}
	return most
}

// entry returns an instance with a passing check.
func entry(service, id, address string, port int) *serviceEntry {
	return &serviceEntry{
		Node:    &nodeEntry{Node: "node-" + id, Address: "10.9.9.9", Datacenter: "dc1"},
		Service: &agentService{ID: id, Service: service, Address: address, Port: port, Weights: agentWeights{Passing: 1, Warning: 1}},
		Checks:  healthChecks{{Node: "node-" + id, CheckID: "service:" + id, ServiceID: id, ServiceName: service, Status: statusPassing}},
	}
}

// put registers an instance, as an agent does: with its check, in one write.
func (f *fake) put(e *serviceEntry) {
	f.change(func() {
		if f.entries[e.Service.Service] == nil {
			f.entries[e.Service.Service] = map[string]*serviceEntry{}
		}
		e.Service.ModifyIndex = f.highest() + 1
		f.entries[e.Service.Service][e.Service.ID] = e
		f.nodes[e.Node.Node] = e.Node
	}, catalogPath, statePath, nodesPath)
}

func (f *fake) remove(service string) {
	f.change(func() { delete(f.entries, service) }, catalogPath, statePath)
}

// breakWith sets a function that answers every request for which it returns true; nil mends the fake.
func (f *fake) breakWith(broken func(w http.ResponseWriter, r *http.Request) bool) {
	f.change(func() { f.BreakWith(broken) })
	f.CloseClientConnections()
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.Asked(r); f.Broken(w, r) {
		return
	}
	f.mu.Lock()
	list := f.index[r.URL.Path] != 0
	f.mu.Unlock()
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, servicePath):
		f.service(w, strings.TrimPrefix(path, servicePath))
	case list:
		f.list(w, r)
	default:
		http.NotFound(w, r)
	}
}

// list answers the request for a list, when its index has moved or the time is over.
func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.ParseUint(r.URL.Query().Get("index"), 10, 64)
	limit, _ := time.ParseDuration(r.URL.Query().Get("wait"))
	over := time.After(limit)
	for {
		f.mu.Lock()
		index, changed := f.index[r.URL.Path], f.changed
		if after == 0 || index != after {
			break
		}
		f.mu.Unlock()
		select {
		case <-changed:
			if f.Broken(w, r) {
				return
			}
			continue
		case <-r.Context().Done():
			return
		case <-over:
		}
		f.mu.Lock()
		break
	}
	defer f.mu.Unlock()
	w.Header().Set("X-Consul-Index", fmt.Sprint(f.index[r.URL.Path]))
	var answer any
	switch r.URL.Path {
	case catalogPath:
		tags := map[string][]string{"consul": {}}
		for name, entries := range f.entries {
			tags[name] = []string{}
			for _, e := range entries {
				tags[name] = append(tags[name], e.Service.Tags...)
			}
		}
		answer = tags
	case statePath:
		checks := healthChecks{}
		for _, entries := range f.entries {
			for _, e := range entries {
				checks = append(checks, e.Checks...)
			}
		}
		answer = checks
	case nodesPath:
		nodes := []*nodeEntry{}
		for _, n := range f.nodes {
			nodes = append(nodes, n)
		}
		answer = nodes
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (f *fake) service(w http.ResponseWriter, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	entries := []*serviceEntry{}
	for _, e := range f.entries[name] {
		entries = append(entries, e)
	}
	w.Header().Set("X-Consul-Index", fmt.Sprint(f.highest()))
	_ = json.NewEncoder(w).Encode(entries)
}
