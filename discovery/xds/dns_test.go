package xds

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

// The names that DNS answers for a proxy of namespace default.
func TestNames(t *testing.T) {
	endpoints := func(addresses ...string) (out []model.Endpoint) {
		for _, a := range addresses {
			out = append(out, model.Endpoint{Address: a})
		}
		return out
	}
	sidecar := &model.Object{
		Meta: model.Meta{Kind: "Sidecar", Namespace: "default", Name: "s"},
		Spec: &networking.Sidecar{Egress: []*networking.IstioEgressListener{{Hosts: []string{"./*"}}}},
	}
	for name, test := range map[string]struct {
		services []model.Service
		sidecar  bool
		want     string
	}{
		"addresses of both families":  {[]model.Service{{Right: model.RightFull, Host: "a.com", Addresses: []string{"10.0.0.1", "FD00::1"}}}, false, "a.com=10.0.0.1,fd00::1"},
		"of the mesh":                 {[]model.Service{{Right: model.RightFull, Host: "a.shop.svc.cluster.local", Addresses: []string{"10.0.0.1"}}}, false, "a.shop.svc.cluster.local=10.0.0.1(a/shop)"},
		"of another cluster's domain": {[]model.Service{{Right: model.RightFull, Host: "a.shop.svc.else", Addresses: []string{"10.0.0.1"}}}, false, "a.shop.svc.else=10.0.0.1"},
		"below a service":             {[]model.Service{{Right: model.RightFull, Host: "x.a.shop.svc.cluster.local", Addresses: []string{"10.0.0.1"}}}, false, "x.a.shop.svc.cluster.local=10.0.0.1"},
		"a wildcard":                  {[]model.Service{{Right: model.RightFull, Host: "*.a.com", Addresses: []string{"10.0.0.1"}}}, false, "*.a.com=10.0.0.1"},
		"a range is no address":       {[]model.Service{{Right: model.RightFull, Host: "a.com", Addresses: []string{"10.0.0.0/8", "10.0.0.1"}}}, false, "a.com=10.0.0.1"},
		"nothing but a range":         {[]model.Service{{Right: model.RightFull, Host: "a.com", Addresses: []string{"10.0.0.0/8"}}}, false, ""},
		"no address":                  {[]model.Service{{Right: model.RightFull, Host: "a.com", Endpoints: endpoints("10.0.0.1")}}, false, ""},
		"headless":                    {[]model.Service{{Right: model.RightFull, Host: "a.com", Headless: true, Endpoints: endpoints("10.0.0.2", "fd00::1", "name.com", "10.0.0.2")}}, false, "a.com=10.0.0.2,fd00::1"},
		"headless, not ready": {[]model.Service{{Right: model.RightFull, Host: "a.com", Headless: true, Endpoints: []model.Endpoint{
			{Address: "10.0.0.1", Health: model.HealthUnhealthy}, {Address: "10.0.0.2", Health: model.HealthHealthy}, {Address: "10.0.0.3", Health: model.HealthTerminating},
		}}}, false, "a.com=10.0.0.2"},
		"Pods of a headless service": {[]model.Service{{Right: model.RightFull, Host: "a.shop.svc.cluster.local", Headless: true, Endpoints: []model.Endpoint{
			{Address: "10.0.0.1", Hostname: "a-0"}, {Address: "fd00::1", Hostname: "a-0"}, {Address: "10.0.0.2", Hostname: "a-1", Health: model.HealthUnhealthy}, {Address: "10.0.0.3"},
		}}}, false, "a-0.a.shop.svc.cluster.local=10.0.0.1,fd00::1(a-0.a/shop) a.shop.svc.cluster.local=10.0.0.1,fd00::1,10.0.0.3(a/shop)"},
		"headless without an endpoint":      {[]model.Service{{Right: model.RightFull, Host: "a.com", Headless: true}}, false, ""},
		"what a Sidecar leaves out":         {[]model.Service{{Right: model.RightFull, Host: "a.com", Namespace: "shop", Addresses: []string{"10.0.0.1"}}, {Right: model.RightFull, Host: "b.com", Namespace: "default", Addresses: []string{"10.0.0.2"}}}, true, "b.com=10.0.0.2"},
		"what is not exported":              {[]model.Service{{Right: model.RightFull, Host: "a.com", Namespace: "shop", ExportTo: []string{"."}, Addresses: []string{"10.0.0.1"}}}, false, ""},
		"the own one of several namespaces": {[]model.Service{{Right: model.RightFull, Host: "a.com", Namespace: "a", Addresses: []string{"10.0.0.1"}}, {Right: model.RightFull, Host: "a.com", Namespace: "default", Addresses: []string{"10.0.0.2"}}}, false, "a.com=10.0.0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			group := model.Group{}
			for _, s := range test.services {
				s.Resolution, s.Ports = model.ResolutionStatic, []model.Port{{Name: "tcp", Number: 80, Protocol: model.TCP}}
				group.Services = append(group.Services, &s)
			}
			if test.sidecar {
				group.Objects = append(group.Objects, sidecar)
			}
			v := Outbound{Mode: node.Redirect, Namespace: "default", Domain: "default.svc.cluster.local"}
			var got []string
			for _, n := range BuildOutbound(model.New(slices.Values([]model.Group{group})), v).Names(v) {
				text := n.Host + "=" + strings.Join(n.Addresses, ",")
				if n.Service != "" {
					text += fmt.Sprintf("(%s/%s)", n.Service, n.Namespace)
				}
				got = append(got, text)
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
