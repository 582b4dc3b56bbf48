package validation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// served is what a discovery has: objects of a store, and a service of a registry with an endpoint.
func served(t *testing.T, text string) Live {
	t.Helper()
	var groups []model.Group
	for _, o := range objects(t, text) {
		groups = append(groups, model.Group{Objects: []*model.Object{o}})
	}
	return Live{Groups: append(groups, model.Group{Services: []*model.Service{{
		Right: model.RightFull, Registry: "Kubernetes", Host: "reviews.shop.svc.cluster.local", Namespace: "shop", Name: "reviews", Ports: []model.Port{{Name: "http", Number: 80, Protocol: model.HTTP}},
		Endpoints: []model.Endpoint{{Address: "10.0.0.9", Labels: map[string]string{"version": "v1"}}},
	}}})}
}

func lines(v Verdict) (out []string) {
	for _, p := range v.Problems {
		out = append(out, strings.TrimPrefix(p.String(), "a.yaml:"))
	}
	return out
}

const sidecar = `{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: s}, spec: {workloadSelector: {labels: {app: %s}}, egress: [{hosts: ["./*"]}]}}`

// Objects of files are judged beside what is served: by its services, objects and connected proxies, not by the faults of others.
func TestLive(t *testing.T) {
	web := model.Proxy{Stream: 1, Name: "web-1", Namespace: "shop", Labels: map[string]string{"app": "web"}, Withheld: map[string]string{"kubernetes://cert": "it is of another namespace"}}
	other := model.Proxy{Stream: 2, Name: "far-1", Namespace: "far", Withheld: map[string]string{"kubernetes://cert": "it is not there"}}
	const policy = `{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {name: p}, spec: {selector: {matchLabels: {app: %s}}}}`
	withheld := "Proxy shop/web-1: secret kubernetes://cert: is requested by this connected proxy, which does not get it: it is of another namespace"
	for name, c := range map[string]struct {
		text, found string
		proxies     []model.Proxy
	}{
		"a host of a registry":                {route("reviews"), "", nil},
		"a host that nobody has":              {route("nobody.example.com"), "no service has the host nobody.example.com", nil},
		"labels of a registry's endpoint":     {subset("reviews", "v1"), "", nil},
		"labels that no endpoint has":         {subset("reviews", "v2"), "no endpoint of reviews.shop.svc.cluster.local has version=v2", nil},
		"a selector of a proxy":               {fmt.Sprintf(policy, "web"), withheld, []model.Proxy{web, other}},
		"a selector that no proxy has":        {fmt.Sprintf(policy, "wen"), "app=wen|" + withheld, []model.Proxy{web, other}},
		"the host of a served object is gone": {`{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: pay}, spec: {hosts: [pay2.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.0.0.1}]}}`, "through these files: no service has the host pay.example.com", nil},
		"a Service without its endpoints":     {"{apiVersion: v1, kind: Service, metadata: {name: reviews}, spec: {ports: [{port: 80, name: http}]}}\n---\n" + subset("reviews", "v1"), "", nil},
	} {
		live := served(t, mesh+strings.Replace(route("pay.example.com"), "{name: v}", "{name: old}", 1)+"\n---\n"+strings.Replace(route("gone.example.com"), "hosts: [pay.example.com]", "hosts: [reviews]", 1))
		live.Connected = c.proxies
		got := lines(live.Judge(objects(t, c.text), nil))
		got = slices.DeleteFunc(got, func(line string) bool { return strings.Contains(line, "claimed by VirtualService") })
		if c.found == "" && len(got) > 0 || c.found != "" && len(got) != len(strings.Split(c.found, "|")) {
			t.Errorf("%s: %q, want %q", name, got, c.found)
			continue
		}
		for _, want := range strings.Split(c.found, "|") {
			if !strings.Contains(strings.Join(got, "\n"), want) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
}

// An object of the files replaces the one of its name, with the age that it has: a new one is younger than those of an API server.
func TestLiveReplaces(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	first := strings.Replace(route("reviews"), "{name: v}", "{name: a}", 1)
	live := served(t, mesh+first+"\n---\n"+strings.Replace(fmt.Sprintf(sidecar, "web"), "name: s", "name: same", 1))
	live.Now = now
	for _, g := range live.Groups {
		for _, o := range g.Objects {
			o.Created = now.Add(-time.Hour)
		}
	}
	changed, younger := strings.Replace(first, "host: reviews", "host: pay.example.com", 1), strings.Replace(route("reviews"), "{name: v}", `{name: "0"}`, 1)
	v := live.Judge(objects(t, changed+"\n---\n"+younger+"\n---\n"+strings.Replace(fmt.Sprintf(sidecar, "web"), "name: s", "name: same", 1)), nil)
	want := &Compared{Same: 1, Changed: []string{"VirtualService shop/a"}, New: []string{"VirtualService shop/0"}}
	if diff := cmp.Diff(want, v.Live); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := strings.Join(lines(v), "\n"); !strings.Contains(got, "VirtualService shop/0: spec.hosts[0]: pay.example.com is claimed by VirtualService shop/a") || strings.Contains(got, "two") {
		t.Errorf("%s", got)
	}
	const summary = "; beside what discovery serves to 0 proxies: 1 as served, 1 changed (VirtualService shop/a), 1 new (VirtualService shop/0)"
	if !strings.HasSuffix(v.Summary(), summary) {
		t.Errorf("%s", v.Summary())
	}
}

// What a late source may have is named, and the problems of the files themselves stay.
func TestLiveIsWhole(t *testing.T) {
	live := served(t, mesh)
	live.Late = []string{"Consul"}
	v := live.Judge(objects(t, route("pay.example.com")), []config.Problem{{File: "b.yaml", Severity: config.Error, Message: "is broken"}})
	if want := "not judged, for discovery does not know it: what source Consul has not sent yet"; v.Rest() != want || !v.Bad(false) || len(v.Problems) != 1 {
		t.Errorf("%q, %v, want %q", v.Rest(), v.Problems, want)
	}
	text, err := Sent([]Text{{Name: "a", Data: []byte("\xff")}, {Name: "b", Error: "no"}})
	if err != nil {
		t.Fatal(err)
	}
	files, err := Received(text)
	if err != nil || len(files) != 2 || string(files[0].Data) != "\xff" || files[1].Error != "no" {
		t.Errorf("%+v, %v", files, err)
	}
	if _, err := Sent([]Text{{Data: make([]byte, MaxSent)}}); err == nil || !strings.Contains(err.Error(), "validate a part of them") {
		t.Error(err)
	}
	for _, text := range []string{"", "{}", "[]", `{"live": {}}`, `{"problems": []}`, "null"} {
		if _, err := ReadLive([]byte(text)); err == nil || !strings.Contains(err.Error(), "is it a discovery of this version?") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
