package xds

import (
	"maps"
	"slices"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A cached value is made again if any of its inputs changes, for example a service that does not have the port.
func TestRoutesKnowServicesOfOtherPorts(t *testing.T) {
	rule := &model.Object{
		Meta: model.Meta{Kind: "VirtualService", Namespace: "default", Name: "r"},
		Spec: &networking.VirtualService{Hosts: []string{"other.test"}, Http: []*networking.HTTPRoute{
			{Route: []*networking.HTTPRouteDestination{to("other.test", "", 0)}},
		}},
	}
	with := map[string]model.Group{
		"80":    {Services: []*model.Service{service("a.test", httpPort(80), at("10.0.0.1", ""))}},
		"other": {Services: []*model.Service{service("other.test", httpPort(81), at("10.0.0.2", ""))}},
		"rule":  {Objects: []*model.Object{rule}},
	}
	without := maps.Clone(with)
	delete(without, "other")
	v := townView()
	for name, steps := range map[string][2]map[string]model.Group{"comes": {without, with}, "goes": {with, without}} {
		mesh := model.New(inOrder(steps[0]))
		last := BuildOutbound(mesh, v)
		next := RebuildOutbound(last, mesh.Next(inOrder(steps[1])), v)
		if want := BuildOutbound(model.New(inOrder(steps[1])), v); !sameResources(want, next) {
			t.Errorf("a service on another port %s: the routes of port 80 are stale", name)
		}
	}
}

// The inbound resources report spans to the tracer in use.
func TestInboundKnowsItsTracer(t *testing.T) {
	zipkin := func(name, host string) *meshconfig.MeshConfig_ExtensionProvider {
		return &meshconfig.MeshConfig_ExtensionProvider{Name: name, Provider: &meshconfig.MeshConfig_ExtensionProvider_Zipkin{
			Zipkin: &meshconfig.MeshConfig_ExtensionProvider_ZipkinTracingProvider{Service: host, Port: 9411},
		}}
	}
	settings := &model.Object{Meta: model.Meta{Kind: "MeshConfig", Name: "mesh"}, Spec: &meshconfig.MeshConfig{
		ExtensionProviders: []*meshconfig.MeshConfig_ExtensionProvider{zipkin("one", "one.test"), zipkin("two", "two.test")},
		DefaultProviders:   &meshconfig.MeshConfig_DefaultProviders{Tracing: []string{"one", "two"}},
	}}
	one, two := service("one.test", httpPort(9411)), service("two.test", httpPort(9411))
	own := service("own.test", httpPort(80), at("10.9.9.9", ""))
	meshWith := func(services ...*model.Service) *model.Mesh {
		return model.New(slices.Values([]model.Group{{Objects: []*model.Object{settings}, Services: append(services, own)}}))
	}
	view := viewOf(t, "10.9.9.9").Inbound
	both, second := InboundOf(meshWith(one, two), view), InboundOf(meshWith(two), view)
	if both.Same(second) {
		t.Error("the first of two tracers goes, and inbound keeps reporting to it")
	}
	if text := string(document(t, second.Build())); !strings.Contains(text, "two.test") || strings.Contains(text, "one.test") {
		t.Error("inbound does not report to the tracer that is left")
	}
	if !InboundOf(meshWith(one, two), view).Same(both) {
		t.Error("nothing changed, and inbound is made anew")
	}
}
