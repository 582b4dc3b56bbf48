package authz_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	security "istio.io/api/security/v1beta1"
	selection "istio.io/api/type/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/authz"
	"github.com/pilotlight/pilotlight/discovery/authz/authztest"
	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// misread spoils one node of a tree of JSON: it has another type, a name that nobody knows, or a value that means nothing.
func (m maker) misread(tree any) any {
	bad := []any{nil, 5, true, "a\nb", "", "*", "a b", ":path", []any{}, []any{nil}, []any{5}, map[string]any{}, map[string]any{"x": "y"}, []any{map[string]any{}}}
	if m.IntN(6) == 0 {
		return bad[m.IntN(len(bad))]
	}
	switch v := tree.(type) {
	case map[string]any: // its names are those of fields, but for the ports of portLevelMtls
		if len(v) == 0 {
			return v
		}
		key := slices.Sorted(maps.Keys(v))[m.IntN(len(v))]
		switch how := m.IntN(5); {
		case key == "selector": // another label would be no mistake, nor would none
			v[key] = []any{5, "app=web", []any{"app"}, map[string]any{"x": "y"}, map[string]any{"matchLabels": m.labels()}}[m.IntN(5)]
		case how == 0:
			v[key+"s"] = v[key]
			delete(v, key)
		case how == 1:
			v[key+"x"] = bad[m.IntN(len(bad))]
		default:
			v[key] = m.misread(v[key])
		}
		return v
	case []any:
		if len(v) == 0 {
			return v
		}
		i := m.IntN(len(v))
		if m.IntN(4) == 0 {
			return append(v, bad[m.IntN(len(bad))])
		}
		v[i] = m.misread(v[i])
		return v
	}
	return bad[m.IntN(len(bad))]
}

// labels returns what cannot be the labels of a selector.
func (m maker) labels() any {
	return []any{5, []any{"app"}, "app=web", map[string]any{"app": 5}, map[string]any{"app": "w*"}, map[string]any{"app": nil}, map[string]any{"a b": "web"}}[m.IntN(7)]
}

// refused returns what stands for an object that was spoilt; nil if it can still be read.
func (m maker) refused(t *testing.T, kind string, spec proto.Message) (closed *model.Object, text string) {
	t.Helper()
	data, err := protojson.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	for range 1 + m.IntN(2) {
		tree = m.misread(tree)
	}
	object := map[string]any{"apiVersion": "security.istio.io/v1", "kind": kind, "metadata": map[string]any{"name": "p", "namespace": "shop"}, "spec": tree}
	if data, err = json.Marshal(object); err != nil {
		t.Fatal(err)
	}
	items := config.Read(data)
	if len(items) != 1 {
		t.Fatalf("%s is read as %d items", data, len(items))
	}
	if items[0].Object != nil {
		return nil, string(data)
	}
	if items[0].Closed == nil {
		t.Fatalf("nothing stands for %s: %v", data, items[0].Problems)
	}
	return items[0].Closed, string(data)
}

func web() *selection.WorkloadSelector {
	return &selection.WorkloadSelector{MatchLabels: map[string]string{"app": "web"}}
}

// Nothing opens by what is written wrong: what a denial has denied, its closed form denies still, at the same workloads; that of an
// allowance lets in nobody.
func FuzzAMisreadPolicyStaysClosed(f *testing.F) {
	for i := range uint64(400) {
		f.Add(i, i*7919)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		m := maker{rand.New(rand.NewPCG(a, b))}
		for _, action := range []security.AuthorizationPolicy_Action{security.AuthorizationPolicy_DENY, security.AuthorizationPolicy_ALLOW} {
			sound := &security.AuthorizationPolicy{Action: action, Selector: web()}
			for range 1 + m.IntN(3) {
				sound.Rules = append(sound.Rules, m.rule())
			}
			closed, text := m.refused(t, "AuthorizationPolicy", sound)
			if closed == nil {
				continue
			}
			spec := closed.Spec.(*security.AuthorizationPolicy)
			if !model.Selects(spec.GetSelector().GetMatchLabels(), web().MatchLabels) {
				t.Fatalf("%s is closed elsewhere: %v", text, spec)
			}
			before := guardOf(sound)
			after := authz.Of([]model.Policy{{Namespace: "shop", Name: "p", Spec: spec, Closed: true}}, authz.Proxy{TrustDomains: []string{"cluster.local"}})
			for range 50 {
				r := m.request()
				was, is := authztest.Allowed(before, r), authztest.Allowed(after, r)
				if is && (!was || action == security.AuthorizationPolicy_ALLOW) {
					t.Fatalf("%s lets in %+v: %s\n%v", action, r, text, spec)
				}
			}
		}
	})
}

// What stands for a RequestAuthentication that is written wrong is a filter that Envoy takes: else it keeps the listener that it
// had, and denials that come later are not served.
func FuzzAMisreadRequestAuthenticationIsTaken(f *testing.F) {
	for i := range uint64(400) {
		f.Add(i, i*7919)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		m := maker{rand.New(rand.NewPCG(a, b))}
		sound := &security.RequestAuthentication{Selector: web()}
		for _, issuer := range []string{"a", "b", "c"} {
			sound.JwtRules = append(sound.JwtRules, &security.JWTRule{
				Issuer: issuer, JwksUri: "https://a.test/keys", Audiences: m.some("x", "y"), FromParams: m.some("p"), FromCookies: m.some("q"),
				FromHeaders:           []*security.JWTHeader{{Name: "x-a", Prefix: "Bearer "}, {Name: "x-b"}},
				OutputPayloadToHeader: m.one("", "x-payload"), OutputClaimToHeaders: []*security.ClaimToHeader{{Header: "x-sub", Claim: "sub"}},
			})
		}
		closed, text := m.refused(t, "RequestAuthentication", sound)
		if closed == nil {
			return
		}
		spec := closed.Spec.(*security.RequestAuthentication)
		if !model.Selects(spec.GetSelector().GetMatchLabels(), web().MatchLabels) {
			t.Fatalf("%s is closed elsewhere: %v", text, spec)
		}
		for _, made := range authz.Of([]model.Policy{{Namespace: "shop", Name: "p", Tokens: spec, Closed: true}}, authz.Proxy{}).HTTP {
			filter, err := made.Config.UnmarshalNew()
			if err != nil {
				t.Fatal(err)
			}
			if err := filter.(interface{ ValidateAll() error }).ValidateAll(); err != nil {
				t.Fatalf("Envoy refuses what stands for %s: %v", text, err)
			}
		}
	})
}

// What stands for a PeerAuthentication that is written wrong closes the workloads that it has closed, whatever the namespace's
// own policy says.
func FuzzAMisreadPeerAuthenticationStaysClosed(f *testing.F) {
	for i := range uint64(400) {
		f.Add(i, i*7919)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		m := maker{rand.New(rand.NewPCG(a, b))}
		strict := &security.PeerAuthentication_MutualTLS{Mode: security.PeerAuthentication_MutualTLS_STRICT}
		open := &security.PeerAuthentication_MutualTLS{Mode: security.PeerAuthentication_MutualTLS_PERMISSIVE}
		closed, text := m.refused(t, "PeerAuthentication", &security.PeerAuthentication{
			Selector: web(), Mtls: strict, PortLevelMtls: map[uint32]*security.PeerAuthentication_MutualTLS{81: open},
		})
		if closed == nil {
			return
		}
		older := &model.Object{Meta: model.Meta{Kind: "PeerAuthentication", Namespace: "shop", Name: "a"}, Spec: &security.PeerAuthentication{Mtls: open}}
		mesh := model.New(slices.Values([]model.Group{{Objects: []*model.Object{older, closed}}}))
		if mode := mesh.Peers("shop").Of(web().MatchLabels).Mode(80); mode != model.PeerStrict {
			t.Fatalf("%s leaves its workload open, %v: %v", text, mode, closed.Spec)
		}
	})
}
