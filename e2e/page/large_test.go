//go:build browser

package page

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
	mesh "github.com/pilotlight/pilotlight/discovery/page"
	"github.com/pilotlight/pilotlight/discovery/proxystatus"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// largeFacts are of 1,000 services with ten endpoints each, 1,000 proxies with a note each, of which each tenth refuses something, and as many pushes as discovery keeps.
func largeFacts() mesh.Facts {
	f := mesh.Facts{Now: time.Now()}
	var services []*model.Service
	for i := range 1000 {
		s := &model.Service{
			Right: model.RightFull, Registry: "Kubernetes", Host: fmt.Sprintf("service-%03d.namespace-%02d.svc.cluster.local", i, i%40), Namespace: fmt.Sprintf("namespace-%02d", i%40),
			Name: fmt.Sprintf("service-%03d", i), Resolution: model.ResolutionStatic, Ports: []model.Port{{Name: "http", Number: 80}},
		}
		for k := range 10 {
			s.Endpoints = append(s.Endpoints, model.Endpoint{Address: fmt.Sprintf("10.%d.%d.%d", k, i/256, i%256), Health: model.Health(i % 5)})
		}
		services = append(services, s)
		p := proxystatus.Proxy{Role: "sidecar", Namespace: s.Namespace, Name: s.Name + "-6f7c9d-x2x4z", State: protocol.StateSynced, Version: "envoy 1.40.0", Connected: f.Now}
		if i%10 == 0 {
			p.Refused = []proxystatus.Refused{{Type: "lds", Text: strings.Repeat("no such filter ", 10), Time: f.Now}}
		}
		f.Proxies, f.Callers = append(f.Proxies, p), append(f.Callers, model.Proxy{Namespace: s.Namespace})
		f.Notes = append(f.Notes, model.Note{Code: model.NoLabels, Meta: model.Meta{Kind: "Proxy", Namespace: s.Namespace, Name: p.Name}, Message: "it has no labels"})
	}
	for i := range 32 {
		at := f.Now.Add(time.Duration(i-32) * time.Minute)
		f.Pushes = append(f.Pushes, ads.Push{
			Pushed: at, Since: at, Last: at.Add(time.Duration(i) * time.Millisecond), Proxies: 1000, Responses: map[string]int{"rds": 900}, Changes: 40,
			Cause: []string{"config/VirtualService/shop/reviews", "config/VirtualService/shop/ratings", "config/DestinationRule/shop/reviews"},
		})
	}
	f.Mesh = model.New(slices.Values([]model.Group{{Services: services}}))
	return f
}

// loaded is what a load of the page cost, until its tables were there, and an empty page before it.
type loaded struct {
	First, Shown, Empty float64 // ms
	Requests, Bytes     int
	Elements, Rows      int
	Layouts             int
}

// 1,000 services and 1,000 proxies are there, not only an empty page, within a second. What is counted is work, which is the same on a slow machine; of times there are medians,
// beside those of an empty page on the same machine.
func TestALargeMesh(t *testing.T) {
	f := largeFacts()
	page := mesh.New(&mesh.Notifier{}, func() mesh.Facts { return f }, func() []string { return nil }).Handler()
	mux := http.NewServeMux()
	mux.Handle("/", page)
	mux.HandleFunc("/empty", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<!DOCTYPE html><link rel=icon href=/page/icon.svg><p>empty"))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	b := openBrowser(t)
	var loads []loaded
	for range 5 {
		one := b.load(server.URL)
		loads = append(loads, one)
		t.Logf("%+v", one)
		if one.Bytes == 0 || one.Bytes > 300_000 {
			t.Errorf("got %+v, want at most 300,000 bytes", one)
		}
		// The page, its style, its script and its icon, one list of what it shows before it shows that, and the stream of events.
		if one.Requests > 6 || one.Elements > 3000 || one.Layouts > 12 {
			t.Errorf("got %+v, want at most 6 requests, 3,000 elements and 12 layouts until the mesh is shown", one)
		}
		if one.Rows != 100+100+50+32 {
			t.Errorf("%d rows are shown first, want 100 proxies, 100 services, 50 faults and 32 changes", one.Rows)
		}
	}
	b.await(lab.StopLimit, has("n-services", "1,000, the first 100")+" && "+has("n-proxies", "1,000, the first 100")+" && "+has("alarm-line", "✗ 1,100 things are wrong")+" && "+drawn("unlisted", "and 1,050 more"))
	median := func(of func(loaded) float64) float64 {
		all := slices.SortedFunc(slices.Values(loads), func(a, b loaded) int { return cmp.Compare(of(a), of(b)) })
		return of(all[len(all)/2])
	}
	first, shown, empty := median(func(l loaded) float64 { return l.First }), median(func(l loaded) float64 { return l.Shown }), median(func(l loaded) float64 { return l.Empty })
	t.Logf("medians of %d loads: first paint after %.0f ms, the mesh after %.0f ms, an empty page beside it after %.0f ms", len(loads), first, shown, empty)
	if shown > 1000+empty {
		t.Errorf("the mesh is shown after %.0f ms, want at most a second more than an empty page beside it, %.0f ms", shown, empty)
	}
	b.nothingWrong(server.URL)
}

// load loads an empty page and then the mesh's.
func (b *browser) load(base string) (out loaded) {
	b.t.Helper()
	const painted = "performance.getEntriesByName('first-contentful-paint').length"
	b.navigate(base + "/empty")
	b.await(lab.StopLimit, "location.pathname === '/empty' && "+painted)
	b.eval("performance.getEntriesByName('first-contentful-paint')[0].startTime", &out.Empty)
	b.attach() // whether a count begins again with another document differs by version
	b.navigate(base + "/")
	b.await(lab.StopLimit, "document.body.dataset.shown && "+painted)
	empty := out.Empty
	b.eval(`(() => {
		const shown = performance.getEntriesByName('shown')[0].startTime, all = performance.getEntriesByType('resource');
		return {first: performance.getEntriesByName('first-contentful-paint')[0].startTime, shown,
			requests: 1 + all.filter(e => e.startTime < shown).length,
			bytes: [...all, ...performance.getEntriesByType('navigation')].reduce((sum, e) => sum + e.decodedBodySize, 0),
			elements: document.querySelectorAll('*').length, rows: document.querySelectorAll('tbody tr, #wrongs > li').length};
	})()`, &out)
	out.Empty, out.Layouts = empty, b.metric("LayoutCount")
	return out
}

// metric is a count of the browser for this page.
func (b *browser) metric(name string) int {
	b.t.Helper()
	var answer struct {
		Metrics []struct {
			Name  string
			Value float64
		}
	}
	b.call("Performance.getMetrics", nil, &answer)
	for _, m := range answer.Metrics {
		if m.Name == name {
			return int(m.Value)
		}
	}
	b.t.Fatalf("Chromium counts no %s: %v", name, answer.Metrics)
	return 0
}
