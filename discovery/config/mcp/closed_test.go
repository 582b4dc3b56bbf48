package mcp

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	security "istio.io/api/security/v1beta1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// A policy that a server sends with an error, or of which only the name can be read, is closed for what it may have named: mutual TLS alone, nobody
// allowed, no token taken. A part that can be read stays.
func TestBrokenPolicies(t *testing.T) {
	strange := func(m proto.Message) proto.Message {
		m.ProtoReflect().SetUnknown([]byte{0xf8, 0x07, 0x01}) // field 127
		return m
	}
	web := &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{"app": "web"}}
	for kind, test := range map[string]struct {
		faults map[string]proto.Message
		closed func(spec any) bool
	}{
		"PeerAuthentication": {
			map[string]proto.Message{
				"a mode that is not known": &security.PeerAuthentication{Mtls: &security.PeerAuthentication_MutualTLS{Mode: 9}},
				"a newer field":            strange(&security.PeerAuthentication{}),
			},
			func(spec any) bool {
				return spec.(*security.PeerAuthentication).Mtls.Mode == security.PeerAuthentication_MutualTLS_STRICT
			},
		},
		"AuthorizationPolicy": {
			map[string]proto.Message{
				"a condition that is not known": &security.AuthorizationPolicy{
					Selector: web, Action: security.AuthorizationPolicy_DENY, Rules: []*security.Rule{{When: []*security.Condition{{Key: "nothing", Values: []string{"x"}}}}},
				},
				"an action that is not known": &security.AuthorizationPolicy{Selector: web, Action: 9, Rules: []*security.Rule{{}}},
				"a newer field":               strange(&security.AuthorizationPolicy{Selector: web, Action: security.AuthorizationPolicy_DENY}),
			},
			func(spec any) bool {
				p := spec.(*security.AuthorizationPolicy)
				denies := p.Action == security.AuthorizationPolicy_DENY && len(p.Rules) == 1 // package authz leaves out the condition of a closed one: it denies more
				return denies || p.Action == security.AuthorizationPolicy_ALLOW && len(p.Rules) == 0
			},
		},
		"RequestAuthentication": {
			map[string]proto.Message{
				"keys that are none": &security.RequestAuthentication{Selector: web, JwtRules: []*security.JWTRule{{Issuer: "https://a.test", Jwks: "{}"}}},
				"a newer field":      strange(&security.RequestAuthentication{Selector: web}),
			},
			func(spec any) bool {
				rules := spec.(*security.RequestAuthentication).JwtRules
				_, fault, _ := model.ReadKeySet(rules[0].GetJwks())
				return len(rules) == 1 && fault != "" && model.KeyURI(rules[0]) == ""
			},
		},
	} {
		k := config.Kinds()[slices.IndexFunc(config.Kinds(), func(k config.Kind) bool { return k.Name == kind })]
		test.faults["another type"] = &structpb.Struct{}
		for name, spec := range test.faults {
			got := readObject("istiod.test:15010", k, overMCP(t, "shop/a", spec))
			if got.key != kind+"/shop/a" || len(got.group.Faults) == 0 || !got.group.Closed() || !test.closed(got.group.Objects[0].Spec) {
				t.Errorf("%s: %s is read as %+v, %v", kind, name, got, got.group.Objects[0].Spec)
			}
		}
	}
}

// Of a resource of which not even the name can be read nobody knows which object it is: what the server had sent of its kind stays until all can be read, and
// a run that begins with one is not whole. So no policy goes because it cannot be read any more.
func TestPoliciesWithoutNamesStay(t *testing.T) {
	const url, key = "security.istio.io/v1/AuthorizationPolicy", "AuthorizationPolicy/shop/a"
	spec := &security.AuthorizationPolicy{Action: security.AuthorizationPolicy_DENY, Rules: []*security.Rule{{}}}
	other := overMCP(t, "shop/b", spec)
	for name, broken := range map[string]*anypb.Any{
		"no resource":     packed(spec),
		"half a resource": {TypeUrl: other.TypeUrl, Value: []byte{0x0a, 0x7f, 1}},
	} {
		st := newState("xds://tested:15010", nil)
		st.apply(url, []*anypb.Any{overMCP(t, "shop/a", spec)})
		for range 2 {
			groups, _ := st.apply(url, []*anypb.Any{other, broken})
			if _, gone := groups[key]; gone {
				t.Errorf("%s: the policy of before goes", name)
			}
		}
		groups, _ := newState("xds://tested:15010", st).apply(url, []*anypb.Any{other, broken})
		if g := groups[unnamed(url, 1)]; !g.Unread || len(g.Faults) == 0 {
			t.Errorf("%s: it is no part that cannot be read: %+v", name, g)
		}
		groups, _ = st.apply(url, []*anypb.Any{other})
		if g, gone := groups[key]; !gone || !g.Empty() || !groups[unnamed(url, 1)].Empty() {
			t.Errorf("%s: when all can be read, it tells %v", name, groups)
		}
	}
}
