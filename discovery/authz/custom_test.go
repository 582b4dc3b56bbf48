package authz

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	tcpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/ext_authz/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"
	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Policies ask their provider, and deny what they name where they cannot.
func TestCustom(t *testing.T) {
	known := []Authorizer{
		{&meshconfig.MeshConfig_ExtensionProvider{Name: "h", Provider: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExtAuthzHttp{
			EnvoyExtAuthzHttp: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationHttpProvider{Service: "a/h.test"},
		}}, "to h"},
		{&meshconfig.MeshConfig_ExtensionProvider{Name: "g", Provider: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExtAuthzGrpc{
			EnvoyExtAuthzGrpc: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationGrpcProvider{Service: "g.test"},
		}}, "to g"},
	}
	path := &security.Rule{To: []*security.Rule_To{{Operation: &security.Operation{Paths: []string{"/a"}}}}}
	port := &security.Rule{To: []*security.Rule_To{{Operation: &security.Operation{Ports: []string{"90"}}}, {Operation: &security.Operation{Methods: []string{"GET"}}}}}
	policy := func(name, provider string, rules ...*security.Rule) model.Policy {
		return model.Policy{Namespace: "n", Name: name, Spec: &security.AuthorizationPolicy{
			Action: security.AuthorizationPolicy_CUSTOM, Rules: rules,
			ActionDetail: &security.AuthorizationPolicy_Provider{Provider: &security.AuthorizationPolicy_ExtensionProvider{Name: provider}},
		}}
	}
	dry := policy("d", "g", path)
	dry.DryRun = true
	for name, test := range map[string]struct {
		policies              []model.Policy
		http, tcp, undetected string
	}{
		"none":           {nil, "", "", ""},
		"a dry run":      {[]model.Policy{dry}, "", "", ""},
		"one beside it":  {[]model.Policy{dry, policy("p", "h", path)}, "names p0, asks to h after istio-ext-authz-h-", "denies ", "denies p0"},
		"of HTTP":        {[]model.Policy{policy("p", "h", path, port)}, "names p0 p1, asks to h after istio-ext-authz-h-", "denies p1", "denies p0 p1"},
		"of gRPC":        {[]model.Policy{policy("p", "g", path, port)}, "names p0 p1, asks to g after istio-ext-authz-g-", "names p0 p1, asks to g after istio-ext-authz-g-", "denies p0 p1"},
		"unknown":        {[]model.Policy{policy("p", "x", path, port)}, "denies p0 p1", "denies p0 p1", ""},
		"two":            {[]model.Policy{policy("p", "g", path), policy("q", "h", port)}, "denies p0 q0", "denies p0 q0", ""},
		"two of one":     {[]model.Policy{policy("p", "g", path), policy("q", "g", port)}, "names p0 q0, asks to g after istio-ext-authz-g-", "names p0 q0, asks to g after istio-ext-authz-g-", "denies p0 q0"},
		"ports only":     {[]model.Policy{policy("p", "h", &security.Rule{To: port.To[:1]}, path)}, "names p0 p1, asks to h after istio-ext-authz-h-", "denies p0", "denies p1"},
		"by a header":    {[]model.Policy{policy("p", "g", &security.Rule{When: []*security.Condition{{Key: "request.headers[a]", Values: []string{"b"}}}})}, "names p0, asks to g after istio-ext-authz-g-", "names p0, asks to g after istio-ext-authz-g-", "denies p0"},
		"by an address":  {[]model.Policy{policy("p", "g", &security.Rule{When: []*security.Condition{{Key: "source.ip", Values: []string{"10.0.0.1"}}}})}, "names p0, asks to g after istio-ext-authz-g-", "names p0, asks to g after istio-ext-authz-g-", ""},
		"without a name": {[]model.Policy{policy("p", "", path)}, "denies p0", "denies p0", ""},
	} {
		g := Of(test.policies, Proxy{Authorizers: known})
		if http, tcp, undetected := tell(t, g.HTTP), tell(t, g.TCP), tell(t, g.Undetected); http != test.http || tcp != test.tcp || undetected != test.undetected {
			t.Errorf("%s: %q, %q, %q, want %q, %q, %q", name, http, tcp, undetected, test.http, test.tcp, test.undetected)
		}
	}
}

func tell(t *testing.T, filters []Filter) string {
	t.Helper()
	rules := func(enforced, shadow *rbacv3.RBAC) string {
		word, of := "denies", enforced
		if enforced == nil {
			word, of = "names", shadow
		}
		var names []string
		for name := range of.Policies {
			var policy string
			var rule int
			at := strings.Index(name, "ns[")
			if _, err := fmt.Sscanf(strings.NewReplacer("[", " ", "]", " ").Replace(name[at:]), "ns n -policy %s -rule %d", &policy, &rule); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			names = append(names, fmt.Sprint(policy, rule))
		}
		slices.Sort(names)
		return word + " " + strings.Join(names, " ")
	}
	var out []string
	for _, f := range filters {
		m, err := f.Config.UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		switch c := m.(type) {
		case *httprbacv3.RBAC:
			out = append(out, rules(c.Rules, c.ShadowRules))
		case *tcprbacv3.RBAC:
			out = append(out, rules(c.Rules, c.ShadowRules))
		case *httpauthzv3.ExtAuthz:
			cluster := c.GetGrpcService().GetEnvoyGrpc().GetClusterName() + c.GetHttpService().GetServerUri().GetCluster()
			out = append(out, "asks "+cluster+" after "+c.FilterEnabledMetadata.Value.GetStringMatch().GetPrefix())
		case *tcpauthzv3.ExtAuthz:
			out = append(out, "asks "+c.GrpcService.GetEnvoyGrpc().GetClusterName()+" after "+c.FilterEnabledMetadata.Value.GetStringMatch().GetPrefix())
		}
	}
	return strings.Join(out, ", ")
}
