package model

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networking "istio.io/api/networking/v1alpha3"
)

func TestConvert(t *testing.T) {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	meta := Meta{Kind: "ServiceEntry", Namespace: "shop", Name: "a", Created: created}
	http := &networking.ServicePort{Number: 80, Name: "http", Protocol: "http", TargetPort: 8080}
	grpc := &networking.ServicePort{Number: 90, Name: "grpc", Protocol: "GRPC"}
	httpPort := Port{Name: "http", Number: 80, Target: 8080, Protocol: HTTP}
	grpcPort := Port{Name: "grpc", Number: 90, Protocol: GRPC}

	for name, test := range map[string]struct {
		entry *networking.ServiceEntry
		want  []*Service
	}{
		"a port is the endpoint's own, else the target, else the service's": {
			&networking.ServiceEntry{
				Hosts: []string{"Reviews.Example.com"}, Resolution: networking.ServiceEntry_STATIC,
				Ports: []*networking.ServicePort{http, grpc},
				Endpoints: []*networking.WorkloadEntry{
					{Address: "127.0.0.1", Labels: map[string]string{"version": "v1"}, Weight: 3},
					{Address: "127.0.0.2", Ports: map[string]uint32{"http": 9080, "grpc": 9090}},
				},
			},
			[]*Service{{
				Right: RightFull, Host: "reviews.example.com", Namespace: "shop", Name: "a", Created: created, External: true, Resolution: ResolutionStatic,
				Ports: []Port{httpPort, grpcPort},
				Endpoints: []Endpoint{
					{Address: "127.0.0.1", Labels: map[string]string{"version": "v1"}, Weight: 3},
					{Address: "127.0.0.2", Ports: map[string]uint32{"http": 9080, "grpc": 9090}},
				},
			}},
		},
		"under DNS without endpoints each host is its own": {
			&networking.ServiceEntry{
				Hosts: []string{"a.com", "B.com"}, Resolution: networking.ServiceEntry_DNS, Ports: []*networking.ServicePort{http},
			},
			[]*Service{
				{
					Right: RightFull, Host: "a.com", Namespace: "shop", Name: "a", Created: created, External: true,
					Resolution: ResolutionDNS, Ports: []Port{httpPort},
					Endpoints: []Endpoint{{Address: "a.com"}},
				},
				{
					Right: RightFull, Host: "b.com", Namespace: "shop", Name: "a", Created: created, External: true,
					Resolution: ResolutionDNS, Ports: []Port{httpPort},
					Endpoints: []Endpoint{{Address: "b.com"}},
				},
			},
		},
		"a static service may have no endpoints": {
			&networking.ServiceEntry{
				Hosts: []string{"a.com"}, Resolution: networking.ServiceEntry_STATIC, Ports: []*networking.ServicePort{grpc},
			},
			[]*Service{{
				Right: RightFull, Host: "a.com", Namespace: "shop", Name: "a", Created: created, External: true,
				Resolution: ResolutionStatic, Ports: []Port{grpcPort},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, servicesOf(meta, test.entry)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// An object that moved within its file gives the same service; one with another spec or age gives a new service.
func TestDeclaredServicesAreKept(t *testing.T) {
	spec := &networking.ServiceEntry{Hosts: []string{"a"}}
	var m *Mesh
	serve := func(o *Object) *Service {
		t.Helper()
		m = m.Next(slices.Values([]Group{{Objects: []*Object{o}}}))
		return m.Services()[0]
	}
	first := serve(&Object{Spec: spec, Meta: Meta{Origin: Origin{File: "a", Line: 1}}})
	if serve(&Object{Spec: spec, Meta: Meta{Origin: Origin{File: "a", Line: 9}}}) != first {
		t.Error("another line makes another service")
	}
	if s := serve(&Object{Spec: spec, Meta: Meta{Created: time.Unix(5, 0)}}); s == first || !s.Created.Equal(time.Unix(5, 0)) {
		t.Errorf("another age makes %+v", s)
	}
	if s := serve(&Object{Spec: &networking.ServiceEntry{Hosts: []string{"b"}}}); s.Host != "b" {
		t.Errorf("another spec makes %+v", s)
	}
	if m = m.Next(slices.Values([]Group{})); len(m.declared) > 0 {
		t.Errorf("a deleted object is remembered: %v", m.declared)
	}
}

func TestResolutionOf(t *testing.T) {
	for given, want := range map[networking.ServiceEntry_Resolution]Resolution{
		networking.ServiceEntry_STATIC: ResolutionStatic, networking.ServiceEntry_NONE: ResolutionNone, networking.ServiceEntry_DNS: ResolutionDNS,
		networking.ServiceEntry_DNS_ROUND_ROBIN: ResolutionDNSRoundRobin, networking.ServiceEntry_DYNAMIC_DNS: ResolutionNone,
	} {
		if got := resolutionOf(given); got != want {
			t.Errorf("%s is %v, want %v", given, got, want)
		}
	}
}
