package model

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
)

// A connected sidecar that should be a workload's, and whose address nothing has, is named; the proxy of a client is not.
func TestNotesOfProxiesWithoutWorkload(t *testing.T) {
	entry := func(namespace, address string, labels map[string]string) *Service {
		s := in(namespace, "a."+namespace+".test")
		s.Endpoints = []Endpoint{{Address: address, Labels: labels}}
		return s
	}
	pod := &Workload{Registry: "Kubernetes", Cluster: "east", Namespace: "pods", Name: "a-1", Addresses: []string{"10.1.0.1"}}
	sidecar := object("Sidecar", "declared", "s", 1, &networking.Sidecar{Ingress: []*networking.IstioIngressListener{{}}})
	app := map[string]string{"app": "a"}
	m := New(slices.Values([]Group{{
		Services:  []*Service{entry("shop", "10.0.0.1", app), entry("declared", "10.0.0.2", app), entry("names", "a.example", app)},
		Workloads: []*Workload{pod}, Objects: []*Object{sidecar},
	}}))
	for name, test := range map[string]struct {
		proxy Proxy
		want  bool
	}{
		"an endpoint":                       {Proxy{Namespace: "shop", Labels: app}, false},
		"another address with its labels":   {Proxy{Namespace: "shop", Labels: map[string]string{"app": "a", "x": "y"}}, true},
		"a client":                          {Proxy{Namespace: "shop", Labels: map[string]string{"app": "client"}}, false},
		"a client without labels":           {Proxy{Namespace: "shop"}, false},
		"of another namespace":              {Proxy{Namespace: "other", Labels: app}, false},
		"of a service that is a name":       {Proxy{Namespace: "names", Labels: app}, false},
		"that has just connected":           {Proxy{Namespace: "shop", Labels: app, New: true}, false},
		"a gateway":                         {Proxy{Namespace: "shop", Labels: app, Gateway: true}, false},
		"a program's gRPC":                  {Proxy{Namespace: "shop", Labels: app, Proxyless: true}, false},
		"whose Sidecar says its ports":      {Proxy{Namespace: "declared", Labels: app}, false},
		"a Pod":                             {Proxy{Namespace: "pods"}, false},
		"no Pod of its namespace":           {Proxy{Namespace: "pods", Labels: app}, true},
		"no Pod of its namespace, nor name": {Proxy{Namespace: "pods", Cluster: "east"}, true},
		"of another cluster than the Pods":  {Proxy{Namespace: "pods", Cluster: "west"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			test.proxy.Name = "p-1"
			test.proxy.Addresses = []netip.Addr{netip.MustParseAddr("10.9.9.9")}
			switch name {
			case "an endpoint":
				test.proxy.Addresses[0] = netip.MustParseAddr("10.0.0.1")
			case "a Pod":
				test.proxy.Addresses[0] = netip.MustParseAddr("10.1.0.1")
			}
			want := ""
			if test.want {
				want = "no-workload Proxy/" + test.proxy.Namespace + "/p-1"
			}
			if got := codesOf(m.Notes(test.proxy)); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// A secret that a proxy does not get is named with the proxy and the reason. Ten proxies of a namespace are named.
func TestNotesOfWithheldSecrets(t *testing.T) {
	var connected []Proxy
	for i := range 12 {
		connected = append(connected, Proxy{Name: fmt.Sprintf("gw-%02d", i), Namespace: "edge", Gateway: true, Withheld: map[string]string{"a": "reason\n"}})
	}
	connected = append(connected, connected[3], Proxy{Name: "gw", Namespace: "other", Withheld: map[string]string{"b": "why b", "a": "why a"}})
	notes := meshOf(nil).Notes(connected...)
	if len(notes) != 13 || notes[0].Code != WithheldSecret || notes[0].Meta.Key() != "Namespace//edge" || !strings.HasPrefix(notes[0].Message, "2 further") {
		t.Fatalf("got %+v", notes)
	}
	if n := notes[1]; n.Meta.Key() != "Proxy/edge/gw-00" || n.Path != "secret a" || !strings.HasSuffix(n.Message, `: reason\n`) {
		t.Errorf("got %+v", n)
	}
	if got, want := codesOf(notes[11:]), "withheld-secret Proxy/other/gw secret a; withheld-secret Proxy/other/gw secret b"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A DestinationRule that may not use the key that it names gets a note, one for each namespace of such proxies; one that names only roots, or
// another key, gets none.
func TestNotesOfKeysThatAreNotLent(t *testing.T) {
	rule := func(namespace, name, host string, mode networking.ClientTLSSettings_TLSmode, credential string) *Object {
		return object("DestinationRule", namespace, name, 1, &networking.DestinationRule{Host: host, Subsets: []*networking.Subset{{
			Name: "v1", TrafficPolicy: &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: mode, CredentialName: credential}},
		}}})
	}
	m := meshOf([]*Object{
		rule("evil", "a", "a.com", networking.ClientTLSSettings_MUTUAL, "partner"), rule("evil", "b", "b.com", networking.ClientTLSSettings_SIMPLE, "partner"),
		rule("evil", "c", "c.com", networking.ClientTLSSettings_MUTUAL, "other"), rule("shop", "d", "d.com", networking.ClientTLSSettings_MUTUAL, "partner"),
	}, in("evil", "a.com"), in("evil", "b.com"), in("evil", "c.com"), in("shop", "d.com"))
	withheld := map[string]string{LentSecret("evil", "partner"): "why"}
	at := func(namespace, name string) Proxy {
		return Proxy{Name: name, Namespace: namespace, Gateway: true, Withheld: withheld}
	}
	var got []string
	for _, n := range m.Notes(at("edge", "gw-1"), at("edge", "gw-2"), at("far", "gw")) {
		if n.Code == WithheldSecret && n.Meta.Kind == "DestinationRule" {
			got = append(got, n.Meta.Key()+": "+n.Message)
		}
	}
	slices.Sort(got)
	if want := `DestinationRule/evil/a: names the client certificate "partner", which proxies of namespace edge do not get, so that they refuse these connections: why; ` +
		`DestinationRule/evil/a: names the client certificate "partner", which proxies of namespace far do not get, so that they refuse these connections: why`; strings.Join(got, "; ") != want {
		t.Errorf("got %s", strings.Join(got, "; "))
	}
}

// Names that only a registry's own DNS answers are named where rules and policies have them.
func TestNotesOfNamesOfRegistries(t *testing.T) {
	web := in("consul", "web.service.consul")
	web.Registry, web.Right = "Consul", RightSuffix
	for host, want := range map[string]bool{
		"web.service.consul": false, "web.service.dc1.consul": true, "v1.web.service.consul": true, "other.service.consul": false, "v1.other.service.consul": false,
	} {
		rule := object("VirtualService", "shop", "v", 1, &networking.VirtualService{Hosts: []string{host}, Http: []*networking.HTTPRoute{{}}})
		policy := object("DestinationRule", "shop", "d", 1, &networking.DestinationRule{Host: host})
		var named []string
		for _, n := range meshOf([]*Object{rule, policy}, web).Notes() {
			if strings.Contains(n.Message, "web.service.consul, and a subset") || strings.Contains(n.Message, "did you mean web.service.consul?") {
				named = append(named, n.Meta.Kind)
			}
		}
		if got := strings.Join(named, " "); want != (got == "DestinationRule VirtualService") || !want && got != "" {
			t.Errorf("%s: named by %q, want %t", host, got, want)
		}
	}
}

// One wrong letter in a host of another domain is named, a virtual host is not.
func TestNotesOfMisspeltHosts(t *testing.T) {
	services := []*Service{in("shop", "reviews.example.com"), in("shop", "api1.example.com")}
	for host, want := range map[string]string{
		"reviews.example.com": "", "reviwes.example.com": "reviews.example.com", "review.example.com": "reviews.example.com",
		"reviewes.example.com": "reviews.example.com", "reviews.exmaple.com": "reviews.example.com", "revieus.example.com": "reviews.example.com",
		"api2.example.com": "", "shop.example.com": "", "reviews.other.org": "", "*.exmaple.com": "", "preview.example.com": "",
	} {
		rule := object("VirtualService", "shop", "v", 1, &networking.VirtualService{Hosts: []string{host}, Http: []*networking.HTTPRoute{{}}})
		notes := meshOf([]*Object{rule}, services...).Notes()
		switch {
		case want == "" && len(notes) > 0:
			t.Errorf("%s: %+v", host, notes)
		case want != "" && (len(notes) != 1 || notes[0].Code != UnknownHost || !strings.HasSuffix(notes[0].Message, "did you mean "+want+"?")):
			t.Errorf("%s: got %+v, want %s", host, notes, want)
		}
	}
}
