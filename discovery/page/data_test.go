package page

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/proxystatus"
	"github.com/pilotlight/pilotlight/discovery/secret"
)

var start = time.Unix(1_000_000, 0)

// meshOf returns a mesh of services with endpoints of these kinds of health.
func meshOf(services map[string][]model.Health) *model.Mesh {
	var all []*model.Service
	for host, kinds := range services {
		s := &model.Service{
			Right: model.RightFull, Registry: "Consul", Host: host, Namespace: "shop", Name: host, Resolution: model.ResolutionStatic, Ports: []model.Port{{Name: "http", Number: 80, Protocol: model.HTTP}},
		}
		for i, health := range kinds {
			s.Endpoints = append(s.Endpoints, model.Endpoint{Address: fmt.Sprintf("10.0.0.%d", i+1), Health: health})
		}
		all = append(all, s)
	}
	return model.New(slices.Values([]model.Group{{Services: all}}))
}

// used is the certificate of a secret, for some proxies of namespace edge.
func used(name string, from, until time.Time, proxies int) ads.InUse {
	return ads.InUse{Name: secret.Name{Namespace: "edge", Name: name}, From: from, Until: until, Proxies: proxies}
}

// What is wrong is said, each with its kind.
func TestWrong(t *testing.T) {
	f := Facts{
		Now: start, Awaited: "source Consul has not synced", Mesh: meshOf(map[string][]model.Health{"a.test": {0}}), Faults: []string{"source Consul: 9 groups are held"},
		Proxies: []proxystatus.Proxy{
			{Namespace: "shop", Name: "web", Refused: []proxystatus.Refused{{Type: "lds", Text: "no such filter"}}},
			{Namespace: "shop", Name: "late", Connected: start, CertificateFrom: start.Add(-20 * time.Hour), CertificateUntil: start.Add(4 * time.Hour)},
			{Namespace: "shop", Name: "renews", Connected: start, CertificateFrom: start.Add(-12 * time.Hour), CertificateUntil: start.Add(12 * time.Hour)},
			{Namespace: "shop", Name: "streams on", Connected: start.Add(-20 * time.Hour), CertificateFrom: start.Add(-21 * time.Hour), CertificateUntil: start.Add(3 * time.Hour)},
			{Namespace: "shop", Name: "of a year", Connected: start, CertificateFrom: start.Add(-9000 * time.Hour), CertificateUntil: start.Add(6 * 24 * time.Hour)},
			{Namespace: "shop", Name: "held", Waits: protocol.Wait{Since: start, Lost: model.Tally{Had: 4, Lost: 3}}},
		},
		Certificates: []Certificate{
			{Name: "soon", From: start.Add(-9000 * time.Hour), Until: start.Add(6 * 24 * time.Hour)},
			{Name: "later", From: start, Until: start.Add(9 * 24 * time.Hour)},
			{Name: "of a day", From: start.Add(-10 * time.Hour), Until: start.Add(14 * time.Hour)},
			{Name: "at its end", From: start.Add(-20 * time.Hour), Until: start.Add(4 * time.Hour)},
			{Name: "broken", Fault: "read it: no such file"},
		},
		InUse: []ads.InUse{
			used("a-year-left", start.Add(-day), start.Add(365*day), 1),
			used("cert-manager", start.Add(-83*day), start.Add(7*day), 1), // of 90 days, a third of which is left when it is renewed
			used("expired", start.Add(-90*day), start.Add(-time.Hour), 1),
			used("not-renewed", start.Add(-84*day), start.Add(6*day), 2),
			used("of-the-mesh", start.Add(-17*time.Hour), start.Add(7*time.Hour), 1), // a leaf of a day, renewed at 12 hours
			used("of-the-mesh-late", start.Add(-19*time.Hour), start.Add(5*time.Hour), 1),
			used("short-acme", start.Add(-4*day), start.Add(2*day), 1), // of six days, renewed when two are left
			used("short-acme-late", start.Add(-5*day), start.Add(day), 1),
		},
		Disconnected: []ads.Disconnected{{Name: "web.shop", IP: "10.0.0.1", At: start}, {Name: "with its workload", IP: "10.0.0.77", At: start}, {Name: "odd", IP: "x"}},
		Notes:        []model.Note{{Code: model.OldEnvoy, Meta: model.Meta{Kind: "Proxy", Namespace: "shop", Name: "old"}, Message: "it is old"}},
	}
	var got []string
	for _, w := range Of(f, "", "").Wrong.Rows {
		got = append(got, w.Kind+": "+w.Text)
	}
	want := []string{
		"not ready: source Consul has not synced", "refused: shop/web refuses LDS: no such filter", "held: shop/held keeps what it has, for it would lose 3 of its 4 clusters",
		"fault: source Consul: 9 groups are held", "certificate: soon ends at 1970-01-18T13:46:40Z, in 144h0m0s", "certificate: at its end ends at 1970-01-12T17:46:40Z, in 4h0m0s",
		"certificate: broken: read it: no such file",
		"certificate: secret edge/expired, of connected proxies (1): its certificate has ended at 1970-01-12T12:46:40Z: its peers refuse it",
		"certificate: secret edge/not-renewed, of connected proxies (2): its certificate ends at 1970-01-18T13:46:40Z, in 6 days",
		"certificate: secret edge/of-the-mesh-late, of connected proxies (1): its certificate ends at 1970-01-12T18:46:40Z, in 5h0m0s",
		"certificate: secret edge/short-acme-late, of connected proxies (1): its certificate ends at 1970-01-13T13:46:40Z, in 24h0m0s",
		"certificate: shop/late has connected with a certificate that ends at 1970-01-12T17:46:40Z, late in its life: its agent renews one at half of that, and says on its page why not",
		"certificate: shop/of a year has connected with a certificate that ends at 1970-01-18T13:46:40Z, late in its life: its agent renews one at half of that, and says on its page why not",
		"gone: web.shop is gone since 1970-01-12T13:46:40Z, and services still have an endpoint at 10.0.0.1",
		"note old-envoy: Proxy shop/old: it is old",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	d := Of(Facts{Now: start}, "a", "b")
	if d.Wrong.All != 0 || d.Services.All != 0 || d.Graph.Host != "b" {
		t.Errorf("of nothing: %+v", d)
	}
	if text, err := json.Marshal(d); err != nil || strings.Contains(string(text), "null") { // a browser goes over each list
		t.Errorf("of nothing: %s, %v", text, err)
	}
}

// The services that are worst come first, and a filter finds rows that have each word.
func TestServices(t *testing.T) {
	const healthy, unhealthy = model.HealthHealthy, model.HealthUnhealthy
	f := Facts{Now: start, Mesh: meshOf(map[string][]model.Health{
		"good.test": {healthy, 0}, "half.test": {healthy, unhealthy}, "none.test": {}, "sick.test": {unhealthy, model.HealthDraining},
	})}
	got := func(filter string) (out []string) {
		for _, h := range Of(f, filter, "").Services.Rows {
			out = append(out, fmt.Sprintf("%s %d/%d", h.Host, h.Healthy, h.Endpoints))
		}
		return out
	}
	if rows, want := got(""), []string{"none.test 0/0", "sick.test 0/2", "half.test 1/2", "good.test 2/2"}; !slices.Equal(rows, want) {
		t.Errorf("got %q, want %q", rows, want)
	}
	if rows, want := got("TEST half consul"), []string{"half.test 1/2"}; !slices.Equal(rows, want) {
		t.Errorf("got %q, want %q", rows, want)
	}
	if d := Of(f, "", ""); len(d.Sources) != 1 || d.Sources[0] != (Registry{"Consul", 4, 3, 6}) {
		t.Errorf("registries are %+v", d.Sources)
	}
}

// The graph has who sees the service, and a way for each share of its requests.
func TestGraph(t *testing.T) {
	mesh := meshOf(map[string][]model.Health{"a.test": {0}})
	proxies := []model.Proxy{
		{Namespace: "shop", Name: "a"}, {Namespace: "shop", Name: "b"}, {Namespace: "away", Name: "c"}, {Namespace: "shop", Gateway: true},
	}
	g := Of(Facts{Now: start, Mesh: mesh, Callers: proxies}, "", "a.test").Graph
	if want := []Caller{{Namespace: "away", Proxies: 1, Sees: true}, {Namespace: "shop", Proxies: 2, Sees: true}}; !slices.Equal(g.Callers, want) || g.Host != "a.test" {
		t.Errorf("got %+v, want %+v", g, want)
	}
	if want := []Way{{To: "a.test", Percent: 100}}; !slices.Equal(g.Ways, want) {
		t.Errorf("got %+v, want %+v", g.Ways, want)
	}
	for _, c := range Of(Facts{Now: start, Mesh: mesh, Callers: proxies}, "", "unknown.test").Graph.Callers {
		if c.Sees {
			t.Errorf("%+v sees what there is not", c)
		}
	}
	var many []model.Proxy
	for i := range 2 * maxGroups {
		many = append(many, model.Proxy{Namespace: fmt.Sprintf("n%03d", i)})
	}
	if g := Of(Facts{Now: start, Mesh: mesh, Callers: many}, "", "a.test").Graph; len(g.Callers) != maxGroups || g.More != maxGroups {
		t.Errorf("%d groups and %d more, want %d of each", len(g.Callers), g.More, maxGroups)
	}
}

// thousand makes the facts of 1,000 services and 1,000 proxies in 40 namespaces.
func thousand() Facts {
	var services []*model.Service
	f := Facts{Now: start}
	for i := range 1000 {
		host := fmt.Sprintf("service-%03d.namespace-%02d.svc.cluster.local", i, i%40)
		s := &model.Service{Right: model.RightFull, Registry: "Kubernetes", Host: host, Namespace: fmt.Sprintf("namespace-%02d", i%40), Name: host, Resolution: model.ResolutionStatic, Ports: []model.Port{{Name: "http", Number: 80}}}
		for k := range 10 {
			s.Endpoints = append(s.Endpoints, model.Endpoint{Address: netip.AddrFrom4([4]byte{10, byte(k), byte(i >> 8), byte(i)}).String()})
		}
		services = append(services, s)
		p := proxystatus.Proxy{
			Node: fmt.Sprint(i), Role: "sidecar", Namespace: s.Namespace, Name: fmt.Sprintf("service-%03d-6f7c9d-x2x4z", i), State: protocol.StateSynced, Version: "envoy 1.40.0",
			Identity: "spiffe://cluster.local/ns/" + s.Namespace + "/sa/default", Connected: start,
		}
		if i%3 == 0 {
			p.Refused = []proxystatus.Refused{{Type: "lds", Text: strings.Repeat("no such filter ", 10)}}
		}
		f.Proxies = append(f.Proxies, p)
		f.Callers = append(f.Callers, model.Proxy{Namespace: s.Namespace, Name: p.Name})
		f.Notes = append(f.Notes, model.Note{Code: model.NoLabels, Meta: model.Meta{Kind: "Proxy", Namespace: s.Namespace, Name: p.Name}, Message: "it has no labels"})
	}
	for i := range 32 {
		f.Pushes = append(f.Pushes, ads.Push{Pushed: start, Since: start, Last: start.Add(time.Duration(i) * time.Millisecond), Proxies: 1000, Cause: []string{"config/VirtualService/shop/reviews"}})
	}
	f.Mesh = model.New(slices.Values([]model.Group{{Services: services}}))
	return f
}

// Of a large mesh a browser gets a bounded part.
func TestTheDataAreBounded(t *testing.T) {
	f := thousand()
	began := time.Now()
	d := Of(f, "", "")
	took := time.Since(began)
	text, err := json.Marshal(d)
	if err != nil || len(text) > 150_000 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	t.Logf("%d bytes in %s", len(text), took)
	if d.Proxies.All != 1000 || len(d.Proxies.Rows) != maxRows || d.Services.All != 1000 || d.Wrong.All != 1334 || len(d.Wrong.Rows) != maxWrong {
		t.Errorf("%d %d %d %d %d", d.Proxies.All, len(d.Proxies.Rows), d.Services.All, d.Wrong.All, len(d.Wrong.Rows))
	}
}
