package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"
)

// guest returns a service that a registry gives a host which is not below its suffix, with one endpoint. It is older
// than anything else.
func guest(registry, host string) *Service {
	return &Service{
		Registry: registry, Right: RightGuest, Host: host, Namespace: "default", Name: host, Created: time.Unix(1, 0), Resolution: ResolutionStatic,
		Ports: []Port{{Name: "http", Number: 80, Protocol: HTTP}}, Endpoints: []Endpoint{{Address: "10.6.6.6"}},
		Origin: Origin{Record: &Record{UID: "EVIL/1"}},
	}
}

func entryFor(namespace, host string, change ...func(*networking.ServiceEntry)) *Object {
	o := entryOf(append(change, func(e *networking.ServiceEntry) { e.Hosts = []string{host} })...)
	o.Namespace, o.Created = namespace, time.Unix(500, 0)
	return o
}

// A registry in which anybody may write gets no request of a host that an object or a Service of Kubernetes has:
// not by the same host, a short name of it, a host that a wildcard covers, nor by a wildcard that covers it.
func TestGuestsYieldToOwners(t *testing.T) {
	kubernetes := registered("", "10.1.0.1", func(s *Service) {
		s.Host, s.Namespace, s.Name, s.Created = "web.default.svc.cluster.local", "default", "web", time.Unix(900, 0)
	})
	for what, test := range map[string]struct {
		guest   string
		objects []*Object
		owner   string // in the note, "" if the guest is served
	}{
		"a Service":                           {"web.default.svc.cluster.local", nil, "Kubernetes Service default/web"},
		"a short name of a Service":           {"web.default", nil, "Kubernetes Service default/web"},
		"the shortest name of a Service":      {"web", nil, "Kubernetes Service default/web"},
		"a longer short name":                 {"web.default.svc", nil, "Kubernetes Service default/web"},
		"a wildcard over a short name":        {"*.default", nil, "Kubernetes Service default/web"},
		"a ServiceEntry of another namespace": {"api.bank.com", []*Object{entryFor("bank", "API.bank.com")}, "ServiceEntry bank/se"},
		"of its own namespace":                {"api.bank.com", []*Object{entryFor("default", "api.bank.com")}, "ServiceEntry default/se"},
		"that nobody else sees": {"api.bank.com", []*Object{entryFor("bank", "api.bank.com", func(e *networking.ServiceEntry) {
			e.ExportTo = []string{"."}
		})}, "ServiceEntry bank/se"},
		"one that Envoy resolves": {"api.bank.com", []*Object{entryFor("bank", "api.bank.com", func(e *networking.ServiceEntry) {
			e.Resolution, e.Endpoints = networking.ServiceEntry_DNS, nil
		})}, "ServiceEntry bank/se"},
		"of another port": {"api.bank.com", []*Object{entryFor("bank", "api.bank.com", func(e *networking.ServiceEntry) {
			e.Ports = []*networking.ServicePort{{Number: 443, Name: "tls", Protocol: "TLS"}}
		})}, "ServiceEntry bank/se"},
		"a host below its wildcard":     {"pay.bank.com", []*Object{entryFor("bank", "*.bank.com")}, "ServiceEntry bank/se"},
		"far below it":                  {"a.b.bank.com", []*Object{entryFor("bank", "*.bank.com")}, "ServiceEntry bank/se"},
		"below a partial wildcard":      {"mybank.com", []*Object{entryFor("bank", "*bank.com")}, "ServiceEntry bank/se"},
		"a wildcard above its host":     {"*.bank.com", []*Object{entryFor("bank", "api.bank.com")}, "ServiceEntry bank/se"},
		"a wildcard above its wildcard": {"*.bank.com", []*Object{entryFor("bank", "*.pay.bank.com")}, "ServiceEntry bank/se"},
		"a wildcard of its domain":      {"*.bank.com", []*Object{entryFor("bank", "bank.com")}, "ServiceEntry bank/se"},
		"a host of nobody":              {"api.shop.com", []*Object{entryFor("bank", "api.bank.com")}, ""},
		"a similar host":                {"xapi.bank.com", []*Object{entryFor("bank", "api.bank.com")}, ""},
		"above its wildcard":            {"bank.com", []*Object{entryFor("bank", "*.bank.com")}, ""},
		"a wildcard beside its host":    {"*.api.bank.com", []*Object{entryFor("bank", "www.bank.com")}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			g := guest("Eureka", test.guest)
			m := meshOf(test.objects, g, kubernetes)
			served := slices.ContainsFunc(m.Services(), func(s *Service) bool {
				return slices.ContainsFunc(s.Endpoints, func(e Endpoint) bool { return e.Address == "10.6.6.6" })
			})
			if served != (test.owner == "") {
				t.Errorf("the guest is served: %t", served)
			}
			var notes []string
			for _, n := range m.Notes() {
				if n.Code == Conflict {
					notes = append(notes, fmt.Sprint(n.Meta.Origin, " loses to ", n.Other.Origin, ": ", n.Message))
				}
			}
			switch said := strings.Join(notes, "\n"); {
			case test.owner == "" && said != "":
				t.Errorf("said %s", said)
			case test.owner != "" && (len(notes) != 1 || !strings.HasPrefix(said, "uid EVIL/1 loses to ") || !strings.Contains(said, "is a host of "+test.owner) ||
				!strings.Contains(said, "Eureka Service default/"+test.guest)):
				t.Errorf("said %q, want both, with their origins", said)
			}
		})
	}
}

// The guest was there first: it is not served any more when the owner appears, and again when that is gone.
func TestGuestsYieldWhenTheOwnerAppears(t *testing.T) {
	g := guest("CloudFoundry", "api.bank.com")
	group := Group{Services: []*Service{g}}
	owner := Group{Objects: []*Object{entryFor("bank", "api.bank.com")}}
	m := New(slices.Values([]Group{group}))
	if s := m.Service("api.bank.com"); s == nil || s.Right != RightGuest {
		t.Fatalf("alone it is %v", s)
	}
	m = m.Next(slices.Values([]Group{group, owner}))
	if s := m.Service("api.bank.com"); s == nil || s.Namespace != "bank" || len(m.Services()) != 1 {
		t.Fatalf("beside its owner it is %v", s)
	}
	moved := *g
	moved.Endpoints = []Endpoint{{Address: "10.6.6.7"}}
	next, ok := m.With([]*Service{&moved}, nil)
	if !ok || len(next.Delta().Services) != 0 || next.Service("api.bank.com") != m.Service("api.bank.com") {
		t.Errorf("a change of its endpoints takes the short path: %t, and changes %v", ok, next.Delta().Services)
	}
	m = m.Next(slices.Values([]Group{group}))
	if s := m.Service("api.bank.com"); s == nil || s.Right != RightGuest {
		t.Errorf("alone again it is %v", s)
	}
}

// Below its own suffix a registry has the host. A ServiceEntry of the same namespace replaces it, without endpoints of
// both; one of another namespace counts there only. Each is named.
func TestSuffixOfARegistry(t *testing.T) {
	own := guest("Eureka", "web.service.eureka")
	own.Right = RightSuffix
	for namespace, want := range map[string]string{
		"default": "default: 10.9.0.1 default: 10.9.0.1 | uid EVIL/1 loses to se.yaml:4",
		"evil":    "default: 10.6.6.6 evil: 10.9.0.1 | se.yaml:4 loses to uid EVIL/1",
	} {
		m := meshOf([]*Object{entryFor(namespace, "web.service.eureka")}, own)
		var got []string
		for _, from := range []string{"shop", namespace} {
			s := m.VisibleService("web.service.eureka", from)
			got = append(got, s.Namespace+":")
			for _, e := range s.Endpoints {
				got = append(got, e.Address)
			}
		}
		for _, n := range m.Notes() {
			got = append(got, "|", n.Meta.Origin.String(), "loses to", n.Other.Origin.String())
		}
		if said := strings.Join(got, " "); said != want {
			t.Errorf("a ServiceEntry of %s: %s\nwant %s", namespace, said, want)
		}
	}
}

// Many guests below a wildcard are named up to a limit, and found without a search through all others.
func TestManyGuests(t *testing.T) {
	services := make([]*Service, 0, 40_000)
	for i := range 20_000 {
		services = append(services, guest("CloudFoundry", fmt.Sprintf("a%d.bank.com", i)), guest("CloudFoundry", fmt.Sprintf("*.b%d.bank.com", i)))
	}
	began := time.Now()
	m := meshOf([]*Object{entryFor("bank", "*.bank.com")}, services...)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("%d guests take %s", len(services), took)
	}
	if n := len(m.Services()); n != 1 {
		t.Errorf("%d services, want one", n)
	}
	notes := m.Notes()
	if len(notes) != maxGuests+1 || !slices.ContainsFunc(notes, func(n Note) bool { return strings.HasPrefix(n.Message, "39900 further hosts") }) {
		t.Errorf("%d notes", len(notes))
	}
}
