package authz

import (
	"fmt"
	"regexp"
	"strconv"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Filter is a filter of Envoy's, for HTTP or for connections.
type Filter struct {
	Name   string
	Config *anypb.Any
}

// Guard has the filters that keep requests from a workload, in their order.
type Guard struct {
	HTTP, TCP  []Filter
	Undetected []Filter // before those of TCP, where connections that are not detected as HTTP may be requests all the same
}

// Names of Envoy's filters, and the prefixes of what they count of a dry run, which are Istio's.
const (
	httpFilter  = "envoy.filters.http.rbac"
	tcpFilter   = "envoy.filters.network.rbac"
	tcpStats    = "tcp."
	dryRunAllow = "istio_dry_run_allow_"
	dryRunDeny  = "istio_dry_run_deny_"
)

// Proxy is what of a proxy and its mesh the filters depend on.
type Proxy struct {
	TrustDomains []string     // the mesh's own, then its aliases
	Authorizers  []Authorizer // those that it can ask
	Gateway      bool         // claims of tokens decide about routes
}

// Of returns the filters for the policies of a workload: CUSTOM, tokens, AUDIT, DENY, ALLOW.
func Of(policies []model.Policy, at Proxy) Guard {
	g := custom(policies, at)
	if f, some := authenticate(policies, at.Gateway); some {
		g.HTTP = append(g.HTTP, f)
	}
	for _, kind := range []struct {
		is    security.AuthorizationPolicy_Action
		as    rbacv3.RBAC_Action
		stats string
	}{
		{security.AuthorizationPolicy_AUDIT, rbacv3.RBAC_LOG, ""},
		{security.AuthorizationPolicy_DENY, rbacv3.RBAC_DENY, dryRunDeny},
		{security.AuthorizationPolicy_ALLOW, rbacv3.RBAC_ALLOW, dryRunAllow},
	} {
		var of []model.Policy
		for _, p := range policies {
			if p.Tokens == nil && p.Spec.GetAction() == kind.is {
				of = append(of, p)
			}
		}
		if len(of) == 0 {
			continue
		}
		r := rules{domains: at.TrustDomains, allow: kind.as == rbacv3.RBAC_ALLOW}
		enforced, shadow := r.both(of, kind.as)
		h := &httprbacv3.RBAC{Rules: enforced, ShadowRules: shadow}
		r.tcp = true
		enforced, shadow = r.both(of, kind.as)
		t := &tcprbacv3.RBAC{Rules: enforced, ShadowRules: shadow, StatPrefix: tcpStats}
		if shadow != nil {
			h.ShadowRulesStatPrefix, t.ShadowRulesStatPrefix = kind.stats, kind.stats
		}
		g.HTTP = append(g.HTTP, Filter{httpFilter, pack(h)})
		g.TCP = append(g.TCP, Filter{tcpFilter, pack(t)})
	}
	return g
}

// both returns the rules of policies that are enforced, and of those that are a dry run; nil for none.
func (r rules) both(policies []model.Policy, action rbacv3.RBAC_Action) (enforced, shadow *rbacv3.RBAC) {
	for _, p := range policies {
		to := &enforced
		if p.DryRun {
			to = &shadow
		}
		if *to == nil {
			*to = &rbacv3.RBAC{Action: action, Policies: map[string]*rbacv3.Policy{}}
		}
		if p.Closed && r.allow {
			continue // it lets nobody in
		}
		for i, rule := range p.Spec.GetRules() {
			if r.ofHTTP && !model.AboutHTTP(rule) {
				continue
			}
			if made := r.policy(p, rule); made != nil {
				(*to).Policies[ruleName(p, i)] = made
			}
		}
	}
	return enforced, shadow
}

func ruleName(p model.Policy, rule int) string {
	return fmt.Sprintf("ns[%s]-policy[%s]-rule[%d]", p.Namespace, p.Name, rule)
}

// ParseRuleName returns the policy and the rule that a name in a filter's rules stands for.
func ParseRuleName(text string) (namespace, name string, rule int, ok bool) {
	parts := ruleNamed.FindStringSubmatch(text)
	if parts == nil {
		return "", "", 0, false
	}
	rule, err := strconv.Atoi(parts[3])
	return parts[1], parts[2], rule, err == nil
}

var ruleNamed = regexp.MustCompile(`^ns\[(.*)\]-policy\[(.*)\]-rule\[(\d+)\]$`)

// pack encodes a message, always with the same bytes. It can fail only on text that is not UTF-8, which all decoders
// refuse.
func pack(m proto.Message) *anypb.Any {
	out := &anypb.Any{}
	if err := anypb.MarshalFrom(out, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic(fmt.Sprintf("encode %T: %v", m, err))
	}
	return out
}
