//go:build kube

package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/kube/catalog"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/registry/kubernetes"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// pushed takes what a server would push, and looks at each mesh.
type pushed struct {
	mu     sync.Mutex
	mesh   *model.Mesh
	times  int
	keys   map[string]bool   // of the groups that changed, since the last reset
	always map[string]string // what hosts have in every mesh
	broken []string          // what was not so
}

func (p *pushed) Push(m *model.Mesh, change model.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mesh = m
	p.times++
	for _, key := range change.Keys {
		p.keys[key] = true
	}
	for host, want := range p.always {
		if got := endpointsOf(m, host); got != want {
			p.broken = append(p.broken, fmt.Sprintf("%s has %s, want %s", host, got, want))
		}
	}
}

func (*pushed) Took() time.Duration { return 0 }

// since returns how often was pushed since the last call, and what changed.
func (p *pushed) since() (times int, keys []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	times, keys = p.times, slices.Sorted(maps.Keys(p.keys))
	p.times, p.keys = 0, map[string]bool{}
	return times, keys
}

// has waits until all of these have changed since the last reset.
func (p *pushed) has(t *testing.T, keys []string) {
	t.Helper()
	check(t, lab.Eventually(time.Minute, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, key := range keys {
			if !p.keys[key] {
				return fmt.Errorf("%s is not pushed", key)
			}
		}
		return nil
	}))
}

func (p *pushed) await(t *testing.T, host, want string) {
	t.Helper()
	check(t, lab.Eventually(time.Minute, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.mesh == nil {
			return fmt.Errorf("nothing was pushed, want %s of %s", want, host)
		}
		if got := endpointsOf(p.mesh, host); got != want {
			return fmt.Errorf("%s has %s, want %s", host, got, want)
		}
		return nil
	}))
}

// endpointsOf are the endpoints of a host, with the versions of their Pods.
func endpointsOf(m *model.Mesh, host string) string {
	s := m.Service(host)
	if s == nil {
		return "no service"
	}
	var out []string
	for _, e := range s.Endpoints {
		out = append(out, strings.TrimSpace(e.Address+" "+e.Labels["version"]))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// follow runs a server with the registry alone, by way of a door.
func follow(t *testing.T, at *door, always map[string]string) *pushed {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	kube.LogTo(log)
	p := &pushed{keys: map[string]bool{}, always: always}
	source := kubernetes.Source{
		Connect: func() (*kube.Client, error) {
			return kube.New(&rest.Config{Host: "http://" + at.address, BearerToken: "tok-admin"}, "test")
		},
		Options: catalog.Options{Cluster: "c1"},
	}
	server := &discovery.Server{
		Sources: map[string]discovery.Source{"Kubernetes": source}, Pusher: p,
		Debounce: discovery.Debounce{After: 100 * time.Millisecond, Max: time.Second}, Log: log,
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		check(t, <-done)
		for _, what := range p.broken {
			t.Errorf("for a while %s", what)
		}
	})
	return p
}

// compact makes etcd forget every version but the newest: a watch from an older one is too old from then on.
func (c *cluster) compact() {
	c.t.Helper()
	ask := func(path string, body any) map[string]any {
		data, err := json.Marshal(body)
		check(c.t, err)
		answer, err := http.Post(c.storage+path, "application/json", bytes.NewReader(data))
		check(c.t, err)
		defer answer.Body.Close()
		out := map[string]any{}
		check(c.t, json.NewDecoder(answer.Body).Decode(&out))
		if answer.StatusCode != http.StatusOK {
			c.t.Fatalf("etcd answers %s to %s: %v", answer.Status, path, out)
		}
		return out
	}
	header, _ := ask("/v3/kv/range", map[string]any{"key": "AA=="})["header"].(map[string]any)
	ask("/v3/kv/compaction", map[string]any{"revision": header["revision"], "physical": true})
}

// podAt is a Pod that runs at an address; slicing lists Pods of a service.
func podAt(name, version, ip string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: shop, labels: {app: echo, version: %[2]s}}
spec: {nodeName: n1, containers: [{name: app, image: none}]}
status: {phase: Running, podIP: %[3]s, podIPs: [{ip: %[3]s}], conditions: [{type: Ready, status: "True"}]}`, name, version, ip)
}

func slicing(name, service string, pods ...[2]string) string {
	var endpoints []string
	for _, pod := range pods {
		endpoints = append(endpoints, fmt.Sprintf("{addresses: [%s], conditions: {ready: true}, nodeName: n1, targetRef: {kind: Pod, namespace: shop, name: %s}}", pod[1], pod[0]))
	}
	return fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %s, namespace: shop, labels: {kubernetes.io/service-name: %s}}
addressType: IPv4
ports: [{name: http, port: 80, protocol: TCP}]
endpoints: [%s]`, name, service, strings.Join(endpoints, ", "))
}

func serviceNamed(name string) string {
	return "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + ", namespace: shop}\nspec: {selector: {app: echo}, ports: [{name: http, port: 80}]}"
}

const shop = ".shop.svc.cluster.local"

// Watches expire (410) while their connections are cut, and a list tells what happened: no endpoint is lost for a moment, none
// stays that is gone, and only what changed is pushed. Slices and Pods come in the orders in which they come in a cluster.
func TestRegistryLosesNothing(t *testing.T) {
	c := startCluster(t, "--watch-cache=false") // which would know old versions that etcd has forgotten
	hand := c.hand()
	hand.apply(namespaceOf("shop"))
	kept := [2]string{"kept", "10.2.0.1"}
	for _, name := range []string{"kept", "moving", "other", "gone"} {
		hand.apply(serviceNamed(name))
	}
	hand.apply(podAt("kept", "v1", kept[1]) + "\n---" + slicing("kept-1", "kept", kept))
	hand.apply(podAt("old", "v1", "10.2.0.2") + "\n---" + slicing("moving-1", "moving", [2]string{"old", "10.2.0.2"}))
	hand.apply(slicing("gone-1", "gone", [2]string{"nobody", "10.2.0.3"}))
	at := startDoor(t, c, c.config("admin"))
	p := follow(t, at, map[string]string{"kept" + shop: "10.2.0.1 v1"})
	p.await(t, "moving"+shop, "10.2.0.2 v1")

	t.Run("a watch expires", func(t *testing.T) {
		hand := hand
		hand.t, c.t = t, t
		at.settled()
		p.since()
		lists := at.count("list") + at.count("stream")
		at.shut()
		hand.delete(serviceNamed("gone"))
		hand.delete(slicing("gone-1", "gone"))
		hand.delete(podAt("old", "v1", "10.2.0.2"))
		hand.apply(podAt("new", "v2", "10.2.0.2") + "\n---" + slicing("moving-1", "moving", [2]string{"new", "10.2.0.2"}))
		hand.apply(namespaceOf("further")) // for each kind is followed from a version of its own
		c.compact()
		at.open()
		p.await(t, "gone"+shop, "no service")
		p.await(t, "moving"+shop, "10.2.0.2 v2")
		if at.tooOld() == 0 {
			t.Error("no watch was too old")
		}
		want := []string{
			"Kubernetes/Pod/shop/new", "Kubernetes/Pod/shop/old",
			"Kubernetes/Service/shop/gone", "Kubernetes/Service/shop/moving",
		}
		p.has(t, want)
		times, keys := p.since()
		t.Logf("%d answers of 410, %d lists, %d pushes of %q", at.tooOld(), at.count("list")+at.count("stream")-lists, times, keys)
		if !slices.Equal(keys, want) {
			t.Errorf("pushed are %q, want %q: what is as it was is no change", keys, want)
		}
		if times > len(want) {
			t.Errorf("%d pushes of %d changes", times, len(want))
		}
	})

	t.Run("parts come in any order", func(t *testing.T) {
		hand := hand
		hand.t = t
		// The slice is there before its Pod, and is served.
		hand.apply(slicing("other-1", "other", [2]string{"late", "10.2.0.7"}))
		p.await(t, "other"+shop, "10.2.0.7")
		hand.apply(podAt("late", "v3", "10.2.0.7"))
		p.await(t, "other"+shop, "10.2.0.7 v3")
		// Another Pod has the address of one that is gone: its labels count.
		hand.delete(podAt("late", "v3", "10.2.0.7"))
		hand.apply(podAt("next", "v4", "10.2.0.7") + "\n---" + slicing("other-1", "other", [2]string{"next", "10.2.0.7"}))
		p.await(t, "other"+shop, "10.2.0.7 v4")
		// A slice moves from one service to another.
		hand.apply(slicing("other-1", "moving", [2]string{"next", "10.2.0.7"}))
		p.await(t, "other"+shop, "")
		p.await(t, "moving"+shop, "10.2.0.2 v2, 10.2.0.7 v4")
	})

	for name, old := range map[string]func(http.ResponseWriter){
		"without streamed lists":                 answering(http.StatusUnprocessableEntity, false),
		"that does not know the option":          answering(http.StatusBadRequest, false),
		"whose storage cannot stream (etcd 3.5)": answering(http.StatusInternalServerError, true),
	} {
		t.Run("a server "+name, func(t *testing.T) {
			hand := hand
			hand.t = t
			at := startDoor(t, c, c.config("admin"))
			at.old = old
			p := follow(t, at, nil)
			p.await(t, "moving"+shop, "10.2.0.2 v2, 10.2.0.7 v4")
			if at.count("stream") == 0 || at.count("list services") != 1 {
				t.Errorf("it was asked %v, want a streamed list first and then one list of services", at.calls)
			}
			hand.apply(slicing("other-1", "other", [2]string{"next", "10.2.0.7"}))
			p.await(t, "other"+shop, "10.2.0.7 v4")
			p.await(t, "moving"+shop, "10.2.0.2 v2")
			hand.apply(slicing("other-1", "moving", [2]string{"next", "10.2.0.7"}))
			p.await(t, "other"+shop, "")
			if at.count("list services") != 1 {
				t.Errorf("services were listed %d times, want once: watches tell the rest", at.count("list services"))
			}
		})
	}
}
