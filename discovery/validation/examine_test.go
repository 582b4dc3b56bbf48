package validation

import (
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

func objects(t *testing.T, text string) (out []*model.Object) {
	t.Helper()
	for _, d := range config.Split([]byte(text)) {
		for _, w := range config.ReadWritten(d.Data, "shop") {
			if w.Refused() {
				t.Fatal(w.Problems)
			}
			out = append(out, w.At("a.yaml", d.Line).Object)
		}
	}
	return out
}

const mesh = `
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: pay}, spec: {hosts: [pay.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.0.0.1, labels: {version: v1}}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: pods}, spec: {hosts: [pods.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, workloadSelector: {labels: {app: pods}}}}
---
{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: pod}, spec: {address: 10.0.0.2, labels: {app: pods, version: v1}}}
---
`

func route(host string) string {
	return "{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: v}, spec: {hosts: [pay.example.com], http: [{route: [{destination: {host: " + host + "}}]}]}}"
}

func subset(host, version string) string {
	return "{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: d}, spec: {host: " + host + ", subsets: [{name: v, labels: {version: " + version + "}}]}}"
}

// A note counts unless a registry may have what is missing, and what does not count is named.
func TestElsewhere(t *testing.T) {
	kubernetes := Registry{Name: "Kubernetes", Hosts: model.Grant{Suffix: "svc.cluster.local"}, Cluster: true}
	consul := Registry{Name: "Consul", Hosts: model.Grant{Suffix: "consul"}}
	cloud := Registry{Name: "CloudFoundry", Hosts: model.Grant{Domains: []string{"*"}, Never: []string{"svc.cluster.local", "consul"}}}
	for name, c := range map[string]struct {
		text       string
		registries Registries
		found      string // of a problem
		left       string
	}{
		"no registry":                            {route("reviews"), nil, "no service has the host reviews.shop.svc.cluster.local", ""},
		"a cluster's host":                       {route("reviews"), Registries{kubernetes}, "", "host reviews.shop.svc.cluster.local"},
		"another domain's":                       {route("reviews.example.org"), Registries{kubernetes}, "no service has the host reviews.example.org", ""},
		"another cluster domain's":               {route("reviews.shop.svc.other.local"), Registries{kubernetes}, "no service has the host reviews.shop.svc.other.local", ""},
		"a cluster's host beside Consul":         {route("reviews"), Registries{consul}, "no service has the host reviews.shop.svc.cluster.local", ""},
		"Consul's host":                          {route("web.service.consul"), Registries{consul}, "", "host web.service.consul"},
		"Consul's host beside a cluster":         {route("web.service.consul"), Registries{kubernetes}, "no service has the host web.service.consul", ""},
		"one of the registries":                  {route("web.service.consul"), Registries{kubernetes, consul}, "", "host web.service.consul"},
		"every host but":                         {route("a.example.org"), Registries{cloud}, "", "host a.example.org"},
		"that of others":                         {route("reviews"), Registries{cloud}, "no service has the host reviews", ""},
		"a subset of an entry with endpoints":    {subset("pay.example.com", "v2"), Registries{kubernetes}, "no endpoint of pay.example.com has version=v2", ""},
		"of an entry that selects Pods":          {subset("pods.example.com", "v2"), Registries{kubernetes}, "", "endpoints of pods.example.com"},
		"of such an entry, beside Consul":        {subset("pods.example.com", "v2"), Registries{consul}, "no endpoint of pods.example.com has version=v2", ""},
		"a subset that has an endpoint":          {subset("pay.example.com", "v1"), Registries{kubernetes}, "", ""},
		"a namespace":                            {`{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: d}, spec: {host: pay.example.com, exportTo: [away]}}`, Registries{kubernetes}, "", "namespace away"},
		"a namespace beside Consul":              {`{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: d}, spec: {host: pay.example.com, exportTo: [away]}}`, Registries{consul}, "nothing is known of namespace away", ""},
		"labels of workloads":                    {`{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: s}, spec: {workloadSelector: {labels: {app: other}}, egress: [{hosts: ["./*"]}]}}`, Registries{kubernetes}, "", "workloads of Sidecar shop/s"},
		"a gateway, which no registry has":       {`{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: v}, spec: {hosts: [pay.example.com], gateways: [front], http: [{route: [{destination: {host: pay.example.com}}]}]}}`, Registries{kubernetes}, "gateway shop/front does not exist", ""},
		"a wildcard above the cluster's domain":  {`{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: d}, spec: {host: "*.cluster.local"}}`, Registries{kubernetes}, "", "host *.cluster.local"},
		"a wildcard beside the cluster's domain": {`{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: d}, spec: {host: "*.example.org"}}`, Registries{kubernetes}, "no service has the host *.example.org", ""},
	} {
		v := Mesh{Elsewhere: c.registries}.Judge(objects(t, mesh+c.text), nil)
		matches := func(p config.Problem) bool { return strings.Contains(p.Message, c.found) }
		if c.found == "" && len(v.Problems) > 0 || c.found != "" && (len(v.Problems) != 1 || !matches(v.Problems[0])) {
			t.Errorf("%s: %v, want %q", name, v.Problems, c.found)
		}
		if left := strings.Join(v.NotJudged, "; "); left != c.left {
			t.Errorf("%s: not judged is %q, want %q", name, left, c.left)
		}
	}
}

// Without a service no host is judged: a file with routes alone is not all wrong, and the output says so.
func TestNoServices(t *testing.T) {
	v := Mesh{}.Judge(objects(t, route("reviews")), nil)
	if want := "not judged, for the files have no service: hosts, ports and subsets"; len(v.Problems) > 0 || v.Rest() != want || v.Bad(true) {
		t.Errorf("%v, %q, want %q", v.Problems, v.Rest(), want)
	}
	if v := (Mesh{}).Judge(objects(t, "{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: w}, spec: {address: 10.0.0.1}}"), nil); v.Rest() != "" {
		t.Errorf("%q of an object that names no host", v.Rest())
	}
}

func TestRestIsBounded(t *testing.T) {
	v := Verdict{reason: "Kubernetes may have them"}
	for range 13 {
		v.NotJudged = append(v.NotJudged, "host a")
	}
	if !strings.HasSuffix(v.Rest(), "host a and 3 more") {
		t.Errorf("%q", v.Rest())
	}
	v.NotJudged = []string{"what source a\x1b[2J\nb has not sent yet"}
	if !strings.HasSuffix(v.Rest(), `source a\x1b[2J\nb has not sent yet`) {
		t.Errorf("%q", v.Rest())
	}
}

// An Ingress is judged by the Services of the files, if there are any, and one that is applied by those of the directory.
func TestIngresses(t *testing.T) {
	const (
		ingress = `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i}, spec: {rules: [{host: a.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}}`
		other   = "\n---\n{apiVersion: v1, kind: Service, metadata: {name: other}, spec: {ports: [{port: 80}]}}"
		web     = "\n---\n{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}"
	)
	for name, c := range map[string]struct {
		text       string
		registries Registries
		problems   int
		left       []string
	}{
		"no Service":                        {ingress, nil, 0, []string{"services of Ingress shop/i"}},
		"another Service":                   {ingress + other, nil, 1, nil},
		"another Service, beside a cluster": {ingress + other, Registries{{Name: "Kubernetes", Cluster: true}}, 0, []string{"services of Ingress shop/i"}},
		"its Service":                       {ingress + web, nil, 0, nil},
	} {
		v := Mesh{Elsewhere: c.registries}.Judge(objects(t, c.text), nil)
		if len(v.Problems) != c.problems || !slices.Equal(v.NotJudged, c.left) {
			t.Errorf("%s: %v, %q, want %d problems, %q", name, v.Problems, v.NotJudged, c.problems, c.left)
		}
	}
	applied := config.ReadWritten([]byte(ingress), "shop")
	for there, want := range map[string]int{other[5:]: 1, web[5:]: 0} {
		if found := (Mesh{}).Beside(applied, objects(t, there)); len(found) != want {
			t.Errorf("beside %s: %v, want %d problems", there, found, want)
		}
	}
}

// Problems of objects that are only there are not those of what is applied.
func TestBesideLeavesTheOthersAlone(t *testing.T) {
	applied := config.ReadWritten([]byte(subset("pay.example.com", "v1")), "shop")
	if found := (Mesh{}).Beside(applied, objects(t, mesh+route("nowhere.example.com"))); len(found) > 0 {
		t.Errorf("%v", found)
	}
	applied = config.ReadWritten([]byte(route("nowhere.example.com")), "shop")
	if found := (Mesh{}).Beside(applied, objects(t, mesh+route("pay.example.com"))); len(found) != 1 {
		t.Errorf("%v, want one problem of what replaces the route", found)
	}
}
