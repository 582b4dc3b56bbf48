package model_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A CUSTOM policy about which nobody can be asked has a note, and one that opens when its provider is away too.
func TestCustomPoliciesAreNoted(t *testing.T) {
	provider := func(name, service string, port uint32, open bool) *meshconfig.MeshConfig_ExtensionProvider {
		return &meshconfig.MeshConfig_ExtensionProvider{Name: name, Provider: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExtAuthzHttp{
			EnvoyExtAuthzHttp: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationHttpProvider{Service: service, Port: port, FailOpen: open},
		}}
	}
	config := object("MeshConfig", "istio-system/m", 1, &meshconfig.MeshConfig{ExtensionProviders: []*meshconfig.MeshConfig_ExtensionProvider{
		provider("good", "asked.test", 80, false), provider("second", "shop/asked.test", 80, false), provider("open", "asked.test", 80, true),
		provider("away", "away.test", 80, false), provider("port", "asked.test", 81, false), provider("elsewhere", "bank/asked.test", 80, false),
		{Name: "spans", Provider: &meshconfig.MeshConfig_ExtensionProvider_Zipkin{Zipkin: &meshconfig.MeshConfig_ExtensionProvider_ZipkinTracingProvider{Service: "a.test"}}},
	}})
	byGRPC := func(name string, port uint32) *meshconfig.MeshConfig_ExtensionProvider {
		return &meshconfig.MeshConfig_ExtensionProvider{Name: name, Provider: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExtAuthzGrpc{
			EnvoyExtAuthzGrpc: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationGrpcProvider{Service: "asked.test", Port: port},
		}}
	}
	settings := config.Spec.(*meshconfig.MeshConfig)
	settings.ExtensionProviders = append(settings.ExtensionProviders, byGRPC("grpc", 90), byGRPC("plain", 80))
	upgrade := object("DestinationRule", "shop/up", 1, &networking.DestinationRule{Host: "asked.test", TrafficPolicy: &networking.TrafficPolicy{
		ConnectionPool: &networking.ConnectionPoolSettings{Http: &networking.ConnectionPoolSettings_HTTPSettings{
			H2UpgradePolicy: networking.ConnectionPoolSettings_HTTPSettings_UPGRADE,
		}},
	}})
	service := object("ServiceEntry", "shop/asked", 1, &networking.ServiceEntry{
		Hosts: []string{"asked.test"}, Resolution: networking.ServiceEntry_STATIC, Location: networking.ServiceEntry_MESH_INTERNAL,
		Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}, {Number: 90, Name: "grpc", Protocol: "GRPC"}}, Endpoints: []*networking.WorkloadEntry{{Address: "10.0.0.1"}},
	})
	custom := func(name, provider string, labels ...string) *model.Object {
		spec := &security.AuthorizationPolicy{
			Action: security.AuthorizationPolicy_CUSTOM, Rules: []*security.Rule{{}},
			ActionDetail: &security.AuthorizationPolicy_Provider{Provider: &security.AuthorizationPolicy_ExtensionProvider{Name: provider}},
		}
		if len(labels) > 0 {
			spec.Selector = &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{labels[0]: labels[1]}}
		}
		return object("AuthorizationPolicy", name, 1, spec)
	}
	dry := custom("shop/dry", "unknown")
	dry.DryRun = true
	grpc := model.Proxy{Name: "server", Namespace: "shop", Proxyless: true, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
	for name, test := range map[string]struct {
		policies []*model.Object
		proxies  []model.Proxy
		want     []string
	}{
		"sound":             {[]*model.Object{custom("shop/p", "good"), custom("shop/q", "good"), dry}, nil, nil},
		"unknown":           {[]*model.Object{custom("shop/p", "x")}, nil, []string{`closed-policy "x" is no extension provider of MeshConfig: at the workloads of shop what its rules name is denied`}},
		"of spans":          {[]*model.Object{custom("shop/p", "spans")}, nil, []string{`closed-policy "spans" is no provider for authorization`}},
		"of no service":     {[]*model.Object{custom("shop/p", "away")}, nil, []string{`closed-policy the service away.test of "away" is not there, or not visible to namespace shop`}},
		"of another's":      {[]*model.Object{custom("shop/p", "elsewhere")}, nil, []string{`closed-policy the service bank/asked.test of "elsewhere" is not there`}},
		"of no port":        {[]*model.Object{custom("shop/p", "port")}, nil, []string{`closed-policy the service asked.test of "port" has no port 81`}},
		"gRPC":              {[]*model.Object{custom("shop/p", "grpc")}, nil, nil},
		"gRPC, plain port":  {[]*model.Object{custom("shop/p", "plain")}, nil, []string{`not-http2 "plain" is asked by gRPC, and port 80 of asked.test is not one of HTTP/2`}},
		"gRPC, upgraded":    {[]*model.Object{upgrade, custom("shop/p", "plain")}, nil, nil},
		"failing open":      {[]*model.Object{custom("shop/p", "open")}, nil, []string{`fails-open "open" has failOpen`}},
		"two, apart":        {[]*model.Object{custom("shop/p", "good", "app", "a"), custom("shop/q", "second", "app", "b")}, nil, nil},
		"two, elsewhere":    {[]*model.Object{custom("shop/p", "good"), custom("bank/q", "second")}, nil, nil},
		"two, of the mesh":  {[]*model.Object{custom("shop/p", "good"), custom("istio-system/q", "second")}, nil, []string{"closed-policy the provider is \"second\", and \"good\"", "closed-policy the provider is \"good\", and \"second\""}},
		"two":               {[]*model.Object{custom("shop/p", "good", "app", "a"), custom("shop/q", "second", "tier", "b")}, nil, []string{"at workloads that both p and shop/q name what its rules name is denied", "at workloads that both q and shop/p name"}},
		"at a gRPC server":  {[]*model.Object{custom("shop/p", "good")}, []model.Proxy{grpc}, []string{"closed-policy gRPC's library asks nobody: at server, a gRPC server, what"}},
		"not at the server": {[]*model.Object{custom("bank/p", "good")}, []model.Proxy{grpc}, nil},
	} {
		var got []string
		for _, n := range meshOf(append(test.policies, config, service)...).Notes(test.proxies...) {
			if n.Code == model.ClosedPolicy || n.Code == model.FailsOpen || n.Code == model.NotHTTP2 {
				got = append(got, fmt.Sprint(n.Code, " ", n.Message))
			}
		}
		slices.Sort(got)
		slices.Sort(test.want)
		if len(got) != len(test.want) || !slices.EqualFunc(got, test.want, func(a, b string) bool { return strings.Contains(a, b) }) {
			t.Errorf("%s: the notes are %q, want %q", name, got, test.want)
		}
	}
}

// A policy of HTTP has a note where its workloads have a port at which HTTP is only detected.
func TestUndeclaredPortsAreNoted(t *testing.T) {
	service := func(name string, ports ...*networking.ServicePort) *model.Object {
		return object("ServiceEntry", name, 1, &networking.ServiceEntry{
			Hosts: []string{strings.ReplaceAll(name, "/", ".") + ".test"}, Resolution: networking.ServiceEntry_STATIC, Location: networking.ServiceEntry_MESH_INTERNAL,
			Ports: ports, Endpoints: []*networking.WorkloadEntry{{Address: "10.0.0.1", Labels: map[string]string{"app": "web"}}},
		})
	}
	web := service("shop/web", &networking.ServicePort{Number: 80, Name: "http", Protocol: "HTTP"}, &networking.ServicePort{Number: 81, Name: "web"}, &networking.ServicePort{Number: 82, Name: "any"})
	declared := service("bank/web", &networking.ServicePort{Number: 80, Name: "http", Protocol: "HTTP"}, &networking.ServicePort{Number: 90, Name: "tcp", Protocol: "TCP"})
	custom := func(name, app string, rule *security.Rule) *model.Object {
		return object("AuthorizationPolicy", name, 1, &security.AuthorizationPolicy{
			Action: security.AuthorizationPolicy_CUSTOM, Rules: []*security.Rule{rule}, Selector: &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{"app": app}},
			ActionDetail: &security.AuthorizationPolicy_Provider{Provider: &security.AuthorizationPolicy_ExtensionProvider{Name: "good"}},
		})
	}
	settings := object("MeshConfig", "istio-system/m", 1, &meshconfig.MeshConfig{ExtensionProviders: []*meshconfig.MeshConfig_ExtensionProvider{
		{Name: "good", Provider: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExtAuthzHttp{
			EnvoyExtAuthzHttp: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationHttpProvider{Service: "bank.web.test", Port: 80},
		}},
	}})
	path := &security.Rule{To: []*security.Rule_To{{Operation: &security.Operation{NotPaths: []string{"/a"}}}}}
	tokens := func(name string) *model.Object {
		return object("RequestAuthentication", name, 1, &security.RequestAuthentication{JwtRules: []*security.JWTRule{{Issuer: "a", Jwks: "{}"}}})
	}
	for name, test := range map[string]struct {
		policy *model.Object
		want   string // how the message begins, and what of bytes it says
		bytes  string
	}{
		"a path":              {custom("shop/p", "web", path), "port 81 of shop.web.test and 1 more: ", "is closed"},
		"of the root":         {custom("istio-system/p", "web", path), "port 81 of shop.web.test and 1 more: ", "is closed"},
		"a header":            {custom("shop/p", "web", &security.Rule{When: []*security.Condition{{Key: "request.headers[a]", Values: []string{"b"}}}}), "port 81 ", "is closed"},
		"an address":          {custom("shop/p", "web", &security.Rule{When: []*security.Condition{{Key: "source.ip", Values: []string{"10.0.0.1"}}}}), "", ""},
		"other workloads":     {custom("shop/p", "db", path), "", ""},
		"declared ports":      {custom("bank/p", "web", path), "", ""},
		"tokens":              {tokens("shop/t"), "port 81 of shop.web.test and 1 more: ", "reaches the workload"},
		"tokens, declared":    {tokens("bank/t"), "", ""},
		"tokens of the root":  {tokens("istio-system/t"), "port 81 ", "reaches the workload"},
		"tokens of elsewhere": {tokens("else/t"), "", ""},
	} {
		var got []string
		for _, n := range meshOf(test.policy, settings, web, declared).Notes() {
			if n.Code == model.UndeclaredPort {
				got = append(got, n.Message)
			}
		}
		if test.want == "" && len(got) == 0 {
			continue
		}
		if len(got) != 1 || !strings.HasPrefix(got[0], test.want) || !strings.Contains(got[0], test.bytes) {
			t.Errorf("%s: the notes are %q, want %q ... %q", name, got, test.want, test.bytes)
		}
	}
}
