package model_test

import (
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A match about a claim, also about its absence, has a note at a Gateway whose workloads no RequestAuthentication can be for.
func TestMatchesOfClaimsAreNoted(t *testing.T) {
	gateway := object("Gateway", "shop/edge", 1, &networking.Gateway{
		Selector: map[string]string{"istio": "ingressgateway", "tier": "edge"},
		Servers:  []*networking.Server{{Port: &networking.Port{Number: 80, Name: "http", Protocol: "HTTP"}, Hosts: []string{"*"}}},
	})
	rule := func(headers, without string, gateways ...string) *model.Object {
		match := &networking.HTTPMatchRequest{}
		exact := &networking.StringMatch{MatchType: &networking.StringMatch_Exact{Exact: "x"}}
		if headers != "" {
			match.Headers = map[string]*networking.StringMatch{headers: exact}
		}
		if without != "" {
			match.WithoutHeaders = map[string]*networking.StringMatch{without: exact}
		}
		return object("VirtualService", "shop/v", 1, &networking.VirtualService{Hosts: []string{"a.test"}, Gateways: gateways, Http: []*networking.HTTPRoute{{
			Match: []*networking.HTTPMatchRequest{match}, DirectResponse: &networking.HTTPDirectResponse{Status: 200},
		}}})
	}
	reads := func(at string, labels map[string]string) *model.Object {
		spec := &security.RequestAuthentication{JwtRules: []*security.JWTRule{{Issuer: "i"}}}
		if labels != nil {
			spec.Selector = &typev1beta1.WorkloadSelector{MatchLabels: labels}
		}
		return object("RequestAuthentication", at, 1, spec)
	}
	const claim = "@request.auth.claims.group"
	for name, test := range map[string]struct {
		objects []*model.Object
		want    string
	}{
		"a claim":                         {[]*model.Object{rule(claim, "", "edge")}, "spec.http[0].match[0].headers"},
		"no claim":                        {[]*model.Object{rule("", claim, "edge")}, "spec.http[0].match[0].withoutHeaders"},
		"an ordinary header":              {[]*model.Object{rule("x-group", "", "edge")}, ""},
		"a Gateway that is not there":     {[]*model.Object{rule(claim, "", "other")}, ""},
		"a policy of the whole mesh":      {[]*model.Object{rule(claim, "", "edge"), reads("istio-system/r", nil)}, ""},
		"a policy with one of the labels": {[]*model.Object{rule(claim, "", "edge"), reads("other/r", map[string]string{"tier": "edge"})}, ""},
		"a policy with another label":     {[]*model.Object{rule(claim, "", "edge"), reads("other/r", map[string]string{"app": "web"})}, ""},
		"a policy of other workloads":     {[]*model.Object{rule(claim, "", "edge"), reads("shop/r", map[string]string{"tier": "inner"})}, "spec.http[0].match[0].headers"},
	} {
		notes := model.New(slices.Values([]model.Group{{Objects: append(test.objects, gateway)}})).Notes()
		got := ""
		for _, n := range notes {
			if strings.Contains(n.Message, "claims of a token") {
				got += n.Path
			}
		}
		if got != test.want {
			t.Errorf("%s: notes at %q, want %q: %+v", name, got, test.want, notes)
		}
	}
}
