package eureka

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/sourcetest"
)

// fake implements the part of Eureka's protocol that the source uses, as observed at Spring Cloud's server.
type fake struct {
	*httptest.Server
	sourcetest.Questions
	mu      sync.Mutex
	known   map[key]map[string]any
	recent  map[key]map[string]any // the content of deltas
	noDelta bool
	hash    string // instead of the true one
}

func newFake(t *testing.T) *fake {
	f := &fake{}
	f.empty()
	f.Server = sourcetest.Serve(t, f)
	return f
}

// empty removes all its content, as a restart does.
func (f *fake) empty() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known, f.recent = map[key]map[string]any{}, map[key]map[string]any{}
	f.Reset()
}

// instanceOf returns an instance as Eureka writes it.
func instanceOf(app, id, address string, port int) map[string]any {
	return map[string]any{
		"instanceId": id, "hostName": id + ".local", "app": strings.ToUpper(app), "ipAddr": address, "status": "UP", "overriddenStatus": "UNKNOWN",
		"vipAddress": app, "secureVipAddress": app,
		"port": map[string]any{"$": port, "@enabled": "true"}, "securePort": map[string]any{"$": 443, "@enabled": "false"},
		"countryId": 1, "dataCenterInfo": map[string]any{"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
		"leaseInfo": map[string]any{"renewalIntervalInSecs": 30, "durationInSecs": 90},
		"metadata":  map[string]any{"@class": "java.util.Collections$EmptyMap"},
	}
}

func (f *fake) put(i map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := key{i["app"].(string), i["instanceId"].(string)}
	i["actionType"] = "ADDED"
	f.known[k], f.recent[k] = i, i
}

func (f *fake) remove(app, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := key{strings.ToUpper(app), id}
	gone := map[string]any{}
	for name, value := range f.known[k] {
		gone[name] = value
	}
	gone["actionType"] = "DELETED"
	f.recent[k] = gone
	delete(f.known, k)
}

// forget removes an instance without an entry in a delta, like a server that lags behind its peers.
func (f *fake) forget(app, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := key{strings.ToUpper(app), id}
	delete(f.known, k)
	delete(f.recent, k)
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Asked(r); f.Broken(w, r) {
		return
	}
	if r.Header.Get("Accept") != "application/json" {
		fmt.Fprint(w, "<applications/>")
		return
	}
	from := f.known
	switch r.URL.Path {
	case "/eureka/apps":
	case "/eureka/apps/delta":
		from = f.recent
		if f.noDelta {
			http.Error(w, "disabled", http.StatusForbidden)
			return
		}
	default:
		http.NotFound(w, r)
		return
	}
	apps, statuses := map[string][]any{}, map[string]int{}
	for _, i := range f.known {
		status, _ := i["status"].(string)
		statuses[status]++
	}
	for k, i := range from {
		apps[k.app] = append(apps[k.app], i)
	}
	list := []any{}
	for name, instances := range apps {
		list = append(list, map[string]any{"name": name, "instance": instances})
	}
	hash := hashOf(statuses)
	if f.hash != "" {
		hash = f.hash
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"applications": map[string]any{"versions__delta": "1", "apps__hashcode": hash, "application": list},
	})
}
