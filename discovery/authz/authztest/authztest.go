package authztest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	templatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"go.yaml.in/yaml/v3"
	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/authz"
	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Row is some policies of the namespace shop, and requests with what becomes of them.
type Row struct {
	Name     string
	Policies []Written
	Allow    []Request
	Deny     []Request
	Broken   bool // a policy has an error: its closed form counts
}

// Written is a policy as it is written.
type Written struct {
	DryRun bool `json:"dryRun"`
	Root   bool // it is of the root namespace
	Broken bool // it has an error, others of the row need not
	Spec   json.RawMessage
}

// Rows reads the rows of a file.
func Rows(t testing.TB, path string) (rows []Row) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := yaml.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	from := json.NewDecoder(bytes.NewReader(text))
	from.DisallowUnknownFields()
	if err := from.Decode(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// Read returns a row's policies, as discovery serves them.
func (r Row) Read(t testing.TB) (out []model.Policy) {
	t.Helper()
	for i, w := range r.Policies {
		namespace := "shop"
		if w.Root {
			namespace = "istio-system"
		}
		text := fmt.Sprintf(`{"apiVersion": "security.istio.io/v1", "kind": "AuthorizationPolicy", "metadata": {"name": "p%d", "namespace": %q, "annotations": {"istio.io/dry-run": "%t"}}, "spec": %s}`,
			i, namespace, w.DryRun, w.Spec)
		for _, item := range config.Read([]byte(text)) {
			o := item.Object
			if r.Broken || w.Broken {
				o = item.Closed
			}
			if o == nil {
				t.Fatalf("%s: policy %d is not served: %+v", r.Name, i, item.Problems)
			}
			out = append(out, model.Policy{Namespace: o.Namespace, Name: o.Name, Spec: o.Spec.(*security.AuthorizationPolicy), DryRun: o.DryRun, Closed: o.Closed})
		}
	}
	return out
}

// Request is a request, or a connection, as Envoy's RBAC sees it.
type Request struct {
	Principal   string // the URI of the client's certificate; "" without one
	Peer        string // the address of the connection's other end
	Remote      string // the client's, by x-forwarded-for
	Address     string // to which it was sent
	Port        uint32
	ServerName  string
	Method      string
	Host        string
	Path        string            // with its query
	Headers     map[string]string // by lower-case names
	Claims      map[string]any    // of its token
	Connection  bool              // it has no more than a connection has
	OtherValues map[string]string // of metadata, by FILTER/KEY
}

// Allowed judges a request by the filters of a guard, as Envoy does. It panics on what no filter of ours has.
func Allowed(g authz.Guard, r Request) bool {
	filters := g.HTTP
	if r.Connection {
		filters = g.TCP
	}
	for _, f := range filters {
		m, err := f.Config.UnmarshalNew()
		if err != nil {
			panic(err)
		}
		var rules *rbacv3.RBAC
		switch c := m.(type) {
		case *httprbacv3.RBAC:
			rules = c.Rules
		case *tcprbacv3.RBAC:
			rules = c.Rules
		default:
			panic(f.Name)
		}
		switch {
		case rules == nil:
		case rules.Action == rbacv3.RBAC_DENY && r.matches(rules), rules.Action == rbacv3.RBAC_ALLOW && !r.matches(rules):
			return false
		}
	}
	return true
}

// matches reports whether one of the rules matches.
func (r Request) matches(rules *rbacv3.RBAC) bool {
	for _, p := range rules.Policies {
		if slices.ContainsFunc(p.Permissions, r.permitted) && slices.ContainsFunc(p.Principals, r.from) {
			return true
		}
	}
	return false
}

func (r Request) permitted(p *rbacv3.Permission) bool {
	switch rule := p.Rule.(type) {
	case *rbacv3.Permission_Any:
		return rule.Any
	case *rbacv3.Permission_AndRules:
		return !slices.ContainsFunc(rule.AndRules.Rules, func(p *rbacv3.Permission) bool { return !r.permitted(p) })
	case *rbacv3.Permission_OrRules:
		return slices.ContainsFunc(rule.OrRules.Rules, r.permitted)
	case *rbacv3.Permission_NotRule:
		return !r.permitted(rule.NotRule)
	case *rbacv3.Permission_Header:
		return r.header(rule.Header)
	case *rbacv3.Permission_UrlPath:
		path, _, _ := strings.Cut(r.Path, "?")
		return matches(rule.UrlPath.GetPath(), path)
	case *rbacv3.Permission_DestinationIp:
		return in(rule.DestinationIp, r.Address)
	case *rbacv3.Permission_DestinationPort:
		return rule.DestinationPort == r.Port
	case *rbacv3.Permission_RequestedServerName:
		return matches(rule.RequestedServerName, r.ServerName)
	case *rbacv3.Permission_UriTemplate:
		m := &templatev3.UriTemplateMatchConfig{}
		if err := rule.UriTemplate.TypedConfig.UnmarshalTo(m); err != nil {
			panic(err)
		}
		path, _, _ := strings.Cut(r.Path, "?")
		re := strings.NewReplacer(`\*\*`, ".*", `\*`, "[^/]+").Replace(regexp.QuoteMeta(m.PathTemplate))
		return regexp.MustCompile("^" + re + "$").MatchString(path)
	case *rbacv3.Permission_SourcedMetadata:
		return r.metadata(rule.SourcedMetadata.MetadataMatcher)
	}
	panic(p.String())
}

func (r Request) from(p *rbacv3.Principal) bool {
	switch id := p.Identifier.(type) {
	case *rbacv3.Principal_Any:
		return id.Any
	case *rbacv3.Principal_AndIds:
		return !slices.ContainsFunc(id.AndIds.Ids, func(p *rbacv3.Principal) bool { return !r.from(p) })
	case *rbacv3.Principal_OrIds:
		return slices.ContainsFunc(id.OrIds.Ids, r.from)
	case *rbacv3.Principal_NotId:
		return !r.from(id.NotId)
	case *rbacv3.Principal_Authenticated_:
		return r.Principal != "" && matches(id.Authenticated.PrincipalName, r.Principal)
	case *rbacv3.Principal_DirectRemoteIp:
		return in(id.DirectRemoteIp, r.Peer)
	case *rbacv3.Principal_RemoteIp:
		return in(id.RemoteIp, r.Remote)
	case *rbacv3.Principal_Header:
		return r.header(id.Header)
	case *rbacv3.Principal_SourcedMetadata:
		return r.metadata(id.SourcedMetadata.MetadataMatcher)
	}
	panic(p.String())
}

func (r Request) header(m *routev3.HeaderMatcher) bool {
	value, there := r.Headers[strings.ToLower(m.Name)]
	switch m.Name {
	case ":authority":
		value, there = r.Host, true
	case ":method":
		value, there = r.Method, true
	}
	return there && !r.Connection && (m.GetPresentMatch() || matches(m.GetStringMatch(), value))
}

func (r Request) metadata(m *matcherv3.MetadataMatcher) bool {
	if m.Filter != "envoy.filters.http.jwt_authn" {
		value, there := r.OtherValues[m.Filter+"/"+m.Path[0].GetKey()]
		return there && valued(m.Value, value)
	}
	var value any = map[string]any{"payload": r.Claims}
	for _, step := range m.Path {
		object, ok := value.(map[string]any)
		if !ok {
			return false
		}
		if value, ok = object[step.GetKey()]; !ok {
			return false
		}
	}
	return valued(m.Value, value)
}

func valued(m *matcherv3.ValueMatcher, value any) bool {
	switch p := m.MatchPattern.(type) {
	case *matcherv3.ValueMatcher_StringMatch:
		text, ok := value.(string)
		return ok && matches(p.StringMatch, text)
	case *matcherv3.ValueMatcher_OrMatch:
		return slices.ContainsFunc(p.OrMatch.ValueMatchers, func(m *matcherv3.ValueMatcher) bool { return valued(m, value) })
	case *matcherv3.ValueMatcher_ListMatch:
		list, ok := value.([]any)
		return ok && slices.ContainsFunc(list, func(item any) bool { return valued(p.ListMatch.GetOneOf(), item) })
	}
	panic(m.String())
}

func matches(m *matcherv3.StringMatcher, text string) bool {
	same := func(s string) string { return s }
	if m.IgnoreCase {
		same = strings.ToLower
	}
	switch p := m.MatchPattern.(type) {
	case *matcherv3.StringMatcher_Exact:
		return same(text) == same(p.Exact)
	case *matcherv3.StringMatcher_Prefix:
		return strings.HasPrefix(same(text), same(p.Prefix))
	case *matcherv3.StringMatcher_Suffix:
		return strings.HasSuffix(same(text), same(p.Suffix))
	case *matcherv3.StringMatcher_Contains:
		return strings.Contains(same(text), same(p.Contains))
	case *matcherv3.StringMatcher_SafeRegex:
		return regexp.MustCompile("^(?:" + p.SafeRegex.Regex + ")$").MatchString(text)
	}
	panic(m.String())
}

func in(r *corev3.CidrRange, address string) bool {
	ip, err := netip.ParseAddr(address)
	prefix := netip.PrefixFrom(netip.MustParseAddr(r.AddressPrefix), int(r.PrefixLen.GetValue()))
	return err == nil && prefix.Contains(ip)
}

// Whole returns the request with what a row leaves out.
func (r Request) Whole() Request {
	or := func(to *string, value string) {
		if *to == "" {
			*to = value
		}
	}
	or(&r.Peer, "127.0.0.1")
	or(&r.Remote, r.Peer)
	or(&r.Address, "127.0.0.1")
	or(&r.Method, "GET")
	or(&r.Host, "web.test")
	or(&r.Path, "/")
	if r.Port == 0 {
		r.Port = 80
	}
	return r
}
