//go:build browser

package page

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/overview"
	mesh "github.com/pilotlight/pilotlight/discovery/page"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// 1,000 services and 1,000 proxies are painted within a second, in less than 300 kB.
func TestALargeMesh(t *testing.T) {
	f := mesh.Facts{Now: time.Now()}
	var services []*model.Service
	for i := range 1000 {
		s := &model.Service{
			Registry: "Kubernetes", Host: fmt.Sprintf("service-%03d.namespace-%02d.svc.cluster.local", i, i%40), Namespace: fmt.Sprintf("namespace-%02d", i%40),
			Name: fmt.Sprintf("service-%03d", i), Resolution: model.ResolutionStatic, Ports: []model.Port{{Name: "http", Number: 80}},
		}
		for k := range 10 {
			s.Endpoints = append(s.Endpoints, model.Endpoint{Address: fmt.Sprintf("10.%d.%d.%d", k, i/256, i%256), Health: model.Health(i % 5)})
		}
		services = append(services, s)
		p := overview.Proxy{Role: "sidecar", Namespace: s.Namespace, Name: s.Name + "-6f7c9d-x2x4z", State: protocol.StateSynced, Version: "envoy 1.40.0", Connected: f.Now}
		if i%10 == 0 {
			p.Refused = []overview.Refused{{Type: "lds", Text: "no such filter", Time: f.Now}}
		}
		f.Proxies, f.Callers = append(f.Proxies, p), append(f.Callers, model.Proxy{Namespace: s.Namespace})
	}
	f.Mesh = model.New(slices.Values([]model.Group{{Services: services}}))
	server := httptest.NewServer(mesh.New(&mesh.Bell{}, func() mesh.Facts { return f }, func() []string { return nil }).Handler())
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	b := openBrowser(t)
	b.call("Page.navigate", map[string]any{"url": server.URL + "/"}, nil)
	b.await(lab.StopLimit, "document.body.dataset.shown && "+has("n-services", "1,000, the first 100"))
	var seen struct {
		First, Shown float64
		Bytes        int
	}
	b.await(lab.StopLimit, "performance.getEntriesByName('first-contentful-paint').length")
	b.eval(`({first: performance.getEntriesByName('first-contentful-paint')[0].startTime, shown: performance.getEntriesByName('shown')[0].startTime,
		bytes: [...performance.getEntriesByType('resource'), ...performance.getEntriesByType('navigation')].reduce((sum, e) => sum + e.decodedBodySize, 0)})`, &seen)
	t.Logf("first paint after %.0f ms, the mesh after %.0f ms, %d bytes before compression", seen.First, seen.Shown, seen.Bytes)
	if seen.First > 1000 || seen.Bytes == 0 || seen.Bytes > 300_000 {
		t.Errorf("got %+v, want a paint within a second, and at most 300,000 bytes", seen)
	}
	b.nothingWrong(server.URL)
}
