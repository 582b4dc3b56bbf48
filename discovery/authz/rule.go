package authz

import (
	"slices"
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// rules translates the rules of policies for one protocol.
type rules struct {
	domains []string // of trust: the mesh's own, then its aliases
	tcp     bool     // for connections: what only requests have is not known
	allow   bool     // a rule that is not understood lets nobody in; else it denies more

	requests bool // what has a condition of HTTP is about requests only: it matches no connection
	ofHTTP   bool // only the rules that have such a condition
}

// test is one condition of a rule: a value is one of values, or of none if that is empty, and none of not.
type test struct {
	model.Condition
	values, not []string
}

// policy returns Envoy's form of a rule of a policy; nil for a rule that matches nothing.
func (r rules) policy(p model.Policy, rule *security.Rule) *rbacv3.Policy {
	var about, from []test // a request's destination and content, and its source
	sound := true
	for _, w := range rule.GetWhen() {
		c, known := model.ParseCondition(w.GetKey())
		switch {
		case !known:
			sound = false
		case permitted(c.Attribute):
			about = append(about, test{c, w.Values, w.NotValues})
		default:
			from = append(from, test{c, w.Values, w.NotValues})
		}
	}
	if r.allow && (!sound || rule == nil) {
		return nil
	}
	out := &rbacv3.Policy{}
	for _, to := range orAny(rule.GetTo()) {
		own := operation(to.GetOperation())
		if r.passes(own, about) {
			continue
		}
		and, ok := r.permissions(append(own, about...))
		if !ok || r.allow && to != nil && len(own) == 0 {
			return nil
		}
		out.Permissions = append(out.Permissions, allPermissions(and))
	}
	for _, f := range orAny(rule.GetFrom()) {
		own := source(f.GetSource())
		if r.passes(own, from) {
			continue
		}
		and, ok := r.principals(p, append(own, from...))
		if !ok || r.allow && f != nil && len(own) == 0 {
			return nil
		}
		out.Principals = append(out.Principals, allPrincipals(and))
	}
	if len(out.Permissions) == 0 || len(out.Principals) == 0 {
		return nil
	}
	return out
}

// passes reports whether tests are about requests only, and match no connection.
func (r rules) passes(lists ...[]test) bool {
	return r.tcp && r.requests && slices.ContainsFunc(slices.Concat(lists...), func(t test) bool { return t.Attribute.HTTP() })
}

// permitted reports whether Envoy compares the attribute in a permission, and not in a principal.
func permitted(a model.Attribute) bool {
	switch a {
	case model.Host, model.Method, model.Path, model.DestinationIP, model.DestinationPort, model.ServerNameAsked, model.EnvoyFilterValue:
		return true
	}
	return false
}

func operation(o *security.Operation) []test {
	return tests(
		test{model.Condition{Attribute: model.Host}, o.GetHosts(), o.GetNotHosts()},
		test{model.Condition{Attribute: model.Method}, o.GetMethods(), o.GetNotMethods()},
		test{model.Condition{Attribute: model.Path}, o.GetPaths(), o.GetNotPaths()},
		test{model.Condition{Attribute: model.DestinationPort}, o.GetPorts(), o.GetNotPorts()},
	)
}

func source(s *security.Source) []test {
	return tests(
		test{model.Condition{Attribute: model.SourcePrincipal}, s.GetPrincipals(), s.GetNotPrincipals()},
		test{model.Condition{Attribute: model.RequestPrincipal}, s.GetRequestPrincipals(), s.GetNotRequestPrincipals()},
		test{model.Condition{Attribute: model.SourceAccount}, s.GetServiceAccounts(), s.GetNotServiceAccounts()},
		test{model.Condition{Attribute: model.SourceNamespace}, s.GetNamespaces(), s.GetNotNamespaces()},
		test{model.Condition{Attribute: model.SourceDomain}, s.GetTrustDomains(), s.GetNotTrustDomains()},
		test{model.Condition{Attribute: model.RemoteIP}, s.GetRemoteIpBlocks(), s.GetNotRemoteIpBlocks()},
		test{model.Condition{Attribute: model.SourceIP}, s.GetIpBlocks(), s.GetNotIpBlocks()},
	)
}

func tests(all ...test) (out []test) {
	for _, t := range all {
		if len(t.values)+len(t.not) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// readable returns the values of a test that can be compared. ok is false if the whole rule matches nothing.
func (r rules) readable(t test) (values, not []string, ok bool) {
	if r.tcp && t.Attribute.HTTP() || len(t.values)+len(t.not) == 0 {
		return nil, nil, !r.allow
	}
	for _, v := range t.values {
		if model.ConditionFault(t.Attribute, v) != "" {
			values = nil // it could have been any
			if r.allow {
				return nil, nil, false
			}
			break
		}
		values = append(values, v)
	}
	for _, v := range t.not {
		switch {
		case model.ConditionFault(t.Attribute, v) == "":
			not = append(not, v)
		case r.allow:
			return nil, nil, false
		}
	}
	return values, not, true
}

// orAny returns a list, or one zero value, which has no conditions, if it is empty.
func orAny[T any](list []T) []T {
	if len(list) == 0 {
		return make([]T, 1)
	}
	return list
}

// trusted returns the principals for which one stands: where its trust domain is one of the mesh's, that in each of
// them.
func (r rules) trusted(principal string) []string {
	principal = strings.TrimPrefix(principal, "spiffe://")
	domain, rest, _ := strings.Cut(principal, "/")
	if strings.Count(principal, "/") != 4 || domain == "*" {
		return []string{principal}
	}
	own := domain == "cluster.local"
	for _, d := range r.domains {
		own = own || wild(domain, d)
	}
	if !own {
		return []string{principal}
	}
	var out []string
	for _, d := range r.domains {
		if wild(domain, d) {
			d = domain // as it is written: it may have a wildcard
		}
		out = append(out, d+"/"+rest)
	}
	return out
}

// wild reports whether a pattern that may begin with * matches a text.
func wild(pattern, text string) bool {
	end, found := strings.CutPrefix(pattern, "*")
	return text == pattern || found && strings.HasSuffix(text, end)
}
