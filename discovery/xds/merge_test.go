package xds

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// If several VirtualServices of a host merge at a gateway, an older one's catch-all hides no route of a later one.
func TestGatewayCatchAllsComeLast(t *testing.T) {
	rule := func(age int, routes ...*networking.HTTPRoute) *model.Object {
		return &model.Object{
			Meta: model.Meta{Kind: "VirtualService", Namespace: "default", Name: fmt.Sprint("rule", age), Created: time.Unix(int64(age), 0)},
			Spec: &networking.VirtualService{Hosts: []string{"a.com"}, Gateways: []string{"gw"}, Http: routes},
		}
	}
	route := func(name string, uri *networking.StringMatch) *networking.HTTPRoute {
		out := &networking.HTTPRoute{Name: name, Route: []*networking.HTTPRouteDestination{to("a.com", "", 0)}}
		if uri != nil {
			out.Match = []*networking.HTTPMatchRequest{{Uri: uri}}
		}
		return out
	}
	objects := []*model.Object{
		rule(1, route("first", prefix("/1")), route("all", nil)),
		rule(2, route("second", prefix("/2")), route("every", regex(".*")), route("hidden", prefix("/3"))),
		rule(3, route("third", exact("/4"))),
		{
			Meta: model.Meta{Kind: "Gateway", Namespace: "default", Name: "gw"},
			Spec: &networking.Gateway{Servers: []*networking.Server{{
				Port: &networking.Port{Number: 80, Protocol: "HTTP", Name: "http"}, Hosts: []string{"*"},
			}}},
		},
	}
	m := model.New(slices.Values([]model.Group{{Services: []*model.Service{service("a.com", httpPort(80))}, Objects: objects}}))
	r := Build(m, viewAt(t, "router~10.0.0.2~gw.default~"+clusterDomain))
	var got []string
	for _, route := range served(t, r.Routes, "http.80").VirtualHosts[0].Routes {
		got = append(got, route.Name)
	}
	if got, want := strings.Join(got, " "), "first second third all"; got != want {
		t.Errorf("routes are %s, want %s", got, want)
	}
}
