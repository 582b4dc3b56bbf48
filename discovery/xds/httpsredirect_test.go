package xds

import (
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// httpsRedirect counts for the routes of its Gateway, and for hosts that no other Gateway has.
func TestARedirectionIsOfItsGateway(t *testing.T) {
	gateway := func(namespace, host string, redirect bool) *model.Object {
		return &model.Object{Meta: model.Meta{Kind: "Gateway", Namespace: namespace, Name: "g"}, Spec: &networking.Gateway{
			Servers: []*networking.Server{{
				Port: &networking.Port{Number: 80, Protocol: "HTTP", Name: "http"}, Hosts: []string{host}, Tls: &networking.ServerTLSSettings{HttpsRedirect: redirect},
			}},
		}}
	}
	rule := func(namespace, host string) *model.Object {
		return &model.Object{Meta: model.Meta{Kind: "VirtualService", Namespace: namespace, Name: "v"}, Spec: &networking.VirtualService{
			Hosts: []string{host}, Gateways: []string{"g"}, Http: []*networking.HTTPRoute{{
				Match: []*networking.HTTPMatchRequest{{Uri: &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: "/" + namespace}}}}, Name: namespace,
				DirectResponse: &networking.HTTPDirectResponse{Status: 200},
			}},
		}}
	}
	everywhere := func(o *model.Object) *model.Object { // the same address as without one
		o.Spec.(*networking.Gateway).Servers[0].Bind = "0.0.0.0"
		return o
	}
	const pay = "pay.test"
	for name, tt := range map[string]struct {
		objects []*model.Object
		want    string // virtual hosts with their routes; "all" where each request is redirected, "→" before a route that redirects
		noted   bool   // that the redirection does not count for the host as a whole
	}{
		"alone":                    {[]*model.Object{gateway("bank", pay, true), rule("bank", pay)}, "pay.test: bank all", false},
		"alone, without routes":    {[]*model.Object{gateway("bank", pay, true)}, "pay.test: all", false},
		"a tenant's":               {[]*model.Object{gateway("bank", pay, false), rule("bank", pay), gateway("evil", pay, true)}, "pay.test: bank", true},
		"for its own namespace":    {[]*model.Object{gateway("bank", pay, false), rule("bank", pay), gateway("evil", "evil/pay.test", true)}, "pay.test: bank", true},
		"at 0.0.0.0":               {[]*model.Object{gateway("bank", pay, false), rule("bank", pay), everywhere(gateway("evil", pay, true))}, "pay.test: bank", true},
		"in capitals":              {[]*model.Object{gateway("bank", pay, false), rule("bank", pay), gateway("evil", "PAY.test", true)}, "pay.test: bank", true},
		"with routes":              {[]*model.Object{gateway("bank", pay, false), rule("bank", pay), gateway("evil", pay, true), rule("evil", pay)}, "pay.test: bank →evil", true},
		"of a wildcard's host":     {[]*model.Object{gateway("bank", "*.test", false), rule("bank", pay), gateway("evil", pay, true)}, "pay.test: bank", true},
		"a host without routes":    {[]*model.Object{gateway("bank", pay, false), gateway("evil", pay, true)}, "", true},
		"a wildcard":               {[]*model.Object{gateway("bank", pay, false), rule("bank", pay), gateway("evil", "*.test", true)}, "*.test: all, pay.test: bank", false},
		"both redirect":            {[]*model.Object{gateway("bank", pay, true), rule("bank", pay), gateway("evil", pay, true)}, "pay.test: bank all", false},
		"below another's wildcard": {[]*model.Object{gateway("shared", "*", false), gateway("bank", pay, true)}, "pay.test: all", false},
	} {
		t.Run(name, func(t *testing.T) {
			mesh := model.New(slices.Values([]model.Group{{Objects: tt.objects}}))
			noted := slices.ContainsFunc(mesh.Notes(), func(n model.Note) bool {
				return strings.HasPrefix(n.Message, "Gateway bank/g has pay.test at port 80 too and does not redirect: ") && n.Code == model.Conflict && n.Path == "spec.servers[0].tls.httpsRedirect" && n.Meta.Namespace == "evil" && n.Other.Namespace == "bank"
			})
			if noted != tt.noted {
				t.Errorf("it is noted: %t, want %t: %v", noted, tt.noted, mesh.Notes())
			}
			r := Build(mesh, ViewOf(proxies()["router"]))
			var got []string
			for _, config := range r.Routes {
				for _, h := range config.VirtualHosts {
					text := strings.Join(h.Domains, ",") + ":"
					for _, route := range h.Routes {
						mark := ""
						if route.GetRedirect() != nil {
							mark = "→"
						}
						text += " " + mark + route.Name
					}
					if h.RequireTls == routev3.VirtualHost_ALL {
						text += " all"
					}
					got = append(got, text)
				}
			}
			slices.Sort(got)
			if text := strings.Join(got, ", "); text != tt.want {
				t.Errorf("got %q, want %q", text, tt.want)
			}
			validate(t, r)
		})
	}
}
