//go:build wire

package policies

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// tokenCase is a case of the tables that test Istio's translation of RequestAuthentication.
type tokenCase struct {
	name   string
	specs  []map[string]any
	wanted *jwtv3.JwtAuthentication // nil for none
}

// tokenTables reads Istio's tables from the source of their test.
func tokenTables(t *testing.T, dir string) (out []tokenCase) {
	t.Helper()
	source, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "policy_applier_test.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []string{"TestJwtFilter", "TestConvertToEnvoyJwtConfig"} {
		for _, row := range rowsOf(source, test, "cases") {
			c := tokenCase{}
			for _, e := range row.Elts {
				field := e.(*ast.KeyValueExpr)
				value := literal(field.Value)
				switch name := literal(field.Key); name {
				case "name":
					c.name = "tokens/" + test + "/" + value.(string)
				case "in":
					c.specs = specsOf(value.([]any))
				case "expected":
					c.wanted = wantedTokens(t, value)
				case "jwksFetchMode": // who fetches the keys
				default:
					t.Fatalf("%s: a case of %s has this field, which this test does not know", name, test)
				}
			}
			out = append(out, c)
		}
	}
	return out
}

// specsOf returns the specs of RequestAuthentications; a list of rules stands for one with these.
func specsOf(in []any) (specs []map[string]any) {
	rules := []any{}
	for _, one := range in {
		object := one.(map[string]any)
		if spec, ok := object["spec"].(map[string]any); ok {
			specs = append(specs, spec)
		} else {
			rules = append(rules, object)
		}
	}
	if len(rules) > 0 {
		specs = append(specs, map[string]any{"jwtRules": rules})
	}
	return specs
}

func wantedTokens(t *testing.T, value any) *jwtv3.JwtAuthentication {
	t.Helper()
	object, some := value.(map[string]any)
	if !some {
		return nil
	}
	if inner, ok := object["typedConfig"]; ok { // of a filter of HTTP
		object = inner.(map[string]any)
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	m := &jwtv3.JwtAuthentication{}
	if err := protojson.Unmarshal(text, m); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return m
}

// keysAt is a key set of RFC 7517 by its name.
func keysAt(name string) string {
	return fmt.Sprintf(`{"keys":[{"kty":"oct","kid":%q,"k":"AAAA"}]}`, name)
}

const (
	keysURI    = "https://keys.example/jwks" // where Istio's test has a server of keys, at jwksURI
	unknownURI = "http://site.not.exist"     // where there are none
	nobodys    = "nobody's"
)

// ours returns the filter that discovery makes, which has fetched the keys that are to be had; nil for none.
func (c tokenCase) ours(t *testing.T) *jwtv3.JwtAuthentication {
	t.Helper()
	of := policyCase{name: c.name}
	for i, spec := range c.specs {
		rules, _ := spec["jwtRules"].([]any)
		for _, r := range rules {
			rule := r.(map[string]any)
			if text, inline := rule["jwks"].(string); inline {
				rule["jwks"] = keysAt("inline " + text)
			}
			uri, fetched := rule["jwksUri"].(string)
			if uri == "jwksURI" {
				uri = keysURI
				rule["jwksUri"] = uri
			}
			if fetched && uri != unknownURI {
				of.keys = append(of.keys, model.KeySet(uri, keysAt("of "+uri)))
			}
		}
		object, err := json.Marshal(map[string]any{
			"apiVersion": "security.istio.io/v1", "kind": "RequestAuthentication",
			"metadata": map[string]any{"name": fmt.Sprint("p", i), "namespace": "foo"}, "spec": spec,
		})
		if err != nil {
			t.Fatal(err)
		}
		of.input = append(append(of.input, object...), "\n---\n"...)
	}
	for _, f := range of.ours(t) {
		if m, ok := unpacked(t, f).(*jwtv3.JwtAuthentication); ok {
			return m
		}
	}
	return nil
}

// alike returns a filter in the form in which Istio's and ours are compared: with the names of key sets, claims in order, and one
// rule for all requests. Istio's is for paths that begin with /, ours also for requests that have none.
func alike(t *testing.T, filter *jwtv3.JwtAuthentication) *jwtv3.JwtAuthentication {
	t.Helper()
	if filter == nil {
		return &jwtv3.JwtAuthentication{}
	}
	m := proto.CloneOf(filter)
	for _, p := range m.Providers {
		name := "of " + p.GetRemoteJwks().GetHttpUri().GetUri()
		if p.GetRemoteJwks() == nil {
			name = keySetName(p.GetLocalJwks().GetInlineString())
		}
		p.JwksSourceSpecifier = &jwtv3.JwtProvider_LocalJwks{LocalJwks: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: name}}}
		slices.Sort(p.NormalizePayloadInMetadata.SpaceDelimitedClaims)
	}
	requires := m.Rules[0].GetRequires()
	switch prefix := m.Rules[0].Match.GetPrefix(); {
	case requires != nil && (len(m.Rules) != 1 || prefix != "/"), requires == nil && (len(m.Rules) != 2 || prefix != "" || m.Rules[1].Match.GetConnectMatcher() == nil):
		t.Errorf("the rules are for other requests: %v", m.Rules)
	case requires == nil:
		requires = m.RequirementMap[m.Rules[0].GetRequirementName()]
	}
	m.Rules, m.RequirementMap = []*jwtv3.RequirementRule{{RequirementType: &jwtv3.RequirementRule_Requires{Requires: requires}}}, nil
	return m
}

// keySetName tells whose keys a text is.
func keySetName(text string) string {
	var set struct{ Keys []struct{ Kid string } }
	if json.Unmarshal([]byte(text), &set) == nil && len(set.Keys) > 0 {
		if set.Keys[0].Kid == "" {
			return nobodys
		}
		return set.Keys[0].Kid
	}
	switch text { // of Istio's test
	case "JwtPubKey1", "JwtPubKey2":
		return "of " + keysURI
	case "PublicOnlyJwks":
		return nobodys
	}
	return "inline " + text
}

// sorted reports whether the rules are in the order of their issuers, in which Istio puts them before it calls the function that one
// of the tables calls by itself.
func (c tokenCase) sorted() bool {
	var issuers []string
	for _, spec := range c.specs {
		rules, _ := spec["jwtRules"].([]any)
		for _, r := range rules {
			issuer, _ := r.(map[string]any)["issuer"].(string)
			issuers = append(issuers, issuer)
		}
	}
	return slices.IsSorted(issuers)
}

// byIssuer names providers by their issuers, and sorts what is required by the names.
func byIssuer(m *jwtv3.JwtAuthentication) {
	named := map[string]*jwtv3.JwtProvider{}
	for _, p := range m.Providers {
		named[p.Issuer] = p
	}
	var walk func(*jwtv3.JwtRequirement)
	walk = func(r *jwtv3.JwtRequirement) {
		if of, ok := r.RequiresType.(*jwtv3.JwtRequirement_ProviderName); ok {
			of.ProviderName = m.Providers[of.ProviderName].Issuer
		}
		for _, list := range [][]*jwtv3.JwtRequirement{r.GetRequiresAny().GetRequirements(), r.GetRequiresAll().GetRequirements()} {
			for _, inner := range list {
				walk(inner)
			}
			slices.SortFunc(list, func(a, b *jwtv3.JwtRequirement) int { return strings.Compare(prototext.Format(a), prototext.Format(b)) })
		}
	}
	walk(m.Rules[0].GetRequires())
	m.Providers = named
}

// Each case of Istio's tables of RequestAuthentication gives the filter that Istio makes, but for the differences that
// docs/compat.md lists with their reasons.
func TestIstioTokens(t *testing.T) {
	listed := meant("tokens/")
	cases, differ := tokenTables(t, filepath.Join(lab.IstioModule(t), "pilot", "pkg", "security", "authn")), 0
	for _, c := range cases {
		theirs, ours := alike(t, c.wanted), alike(t, c.ours(t))
		if !c.sorted() {
			byIssuer(theirs)
			byIssuer(ours)
		}
		switch {
		case proto.Equal(theirs, ours):
		case listed[c.name]:
			differ++
			delete(listed, c.name)
		default:
			t.Errorf("%s: Istio's filter is\n%s\nours\n%s", c.name, protojson.Format(theirs), protojson.Format(ours))
		}
	}
	for name := range listed {
		t.Errorf("%s: does not differ, or is no case any more", name)
	}
	if len(cases) < 19 {
		t.Errorf("%d cases, want Istio's tables", len(cases))
	}
	t.Logf("%d of %d cases agree, %d differ as listed", len(cases)-differ, len(cases), differ)
}

// meant returns the cases that differ on purpose, of those whose names begin with one of some words.
func meant(words ...string) map[string]bool {
	out := map[string]bool{}
	for _, d := range config.Policies() {
		for _, name := range d.Cases {
			out[name] = slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(name, w) })
		}
	}
	maps.DeleteFunc(out, func(_ string, of bool) bool { return !of })
	return out
}
