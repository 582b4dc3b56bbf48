//go:build wire

package policies

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	tcpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/ext_authz/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// compared is a case with what is served for it by both, and what Envoy has said.
type compared struct {
	policyCase
	theirs, ours []*anypb.Any
	rules        []*rbacv3.Policy // of both
	pairs        []pair
	choices      choices
	probed       int    // the port of a listener that judges each condition by itself
	at           [2]int // the ports of Istio's filters, and of ours
	asked        int
	faults       map[string]bool
}

func (c *compared) fault(format string, args ...any) { c.faults[fmt.Sprintf(format, args...)] = true }

func compare(t *testing.T, of policyCase) *compared {
	t.Helper()
	c := &compared{policyCase: of, theirs: of.wanted, ours: of.ours(t), faults: map[string]bool{}}
	theirs, ours := rulesOf(t, c.theirs), rulesOf(t, c.ours)
	all := maps.Clone(theirs)
	maps.Copy(all, ours)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch a, b := theirs[name], ours[name]; {
		case a == nil:
			c.fault("%s: Istio has no such rule", name)
		case b == nil && !never(a):
			c.fault("%s: ours has no such rule", name)
		case b != nil:
			pairs, fault := paired(name, a, b)
			if fault != "" {
				c.fault("%s", fault)
			}
			c.rules, c.pairs = append(c.rules, a, b), append(c.pairs, pairs...)
		}
	}
	var leaves []leaf
	for _, r := range c.rules {
		leaves = append(leaves, leavesOfRule(r)...)
	}
	c.choices = choicesOf(leaves)
	c.choices["peer"] = slices.DeleteFunc(c.choices["peer"], func(v any) bool { // one address of IPv6 stands for all
		address, ok := v.(string)
		return ok && strings.HasPrefix(address, "::")
	})
	c.settings(t)
	return c
}

// never tells whether a rule is the one that Istio makes for a policy without rules, which matches nothing.
func never(rule *rbacv3.Policy) bool { return rule.Permissions[0].GetNotRule().GetAny() }

// settings compares how a provider is asked. By which names the filter before tells that a rule names the request may differ.
func (c *compared) settings(t *testing.T) {
	t.Helper()
	of := func(filters []*anypb.Any) (out []proto.Message) {
		for _, f := range filters {
			switch m := unpacked(t, f).(type) {
			case *httpauthzv3.ExtAuthz:
				m.FilterEnabledMetadata.Value = nil
				if s := m.GetHttpService(); s != nil && proto.Equal(s.AuthorizationResponse, &httpauthzv3.AuthorizationResponse{}) {
					s.AuthorizationResponse = nil
				}
				out = append(out, m)
			case *tcpauthzv3.ExtAuthz:
				m.FilterEnabledMetadata.Value = nil
				out = append(out, m)
			}
		}
		return out
	}
	theirs, ours := of(c.theirs), of(c.ours)
	if !slices.EqualFunc(theirs, ours, proto.Equal) {
		c.fault("providers are asked in another way: %v, ours %v", theirs, ours)
	}
}

// served returns filters that the judge can have: with providers of its own, and loopback addresses in place of peers.
func served(t *testing.T, filters []*anypb.Any, peers map[string]string) (out []*anypb.Any) {
	t.Helper()
	for _, f := range filters {
		m := unpacked(t, f)
		for _, rules := range rbacOf(m) {
			for _, r := range rules.GetPolicies() {
				for _, p := range r.Principals {
					replacePeers(p, peers)
				}
			}
		}
		longer := durationpb.New(time.Minute)
		switch m := m.(type) {
		case *httpauthzv3.ExtAuthz:
			if s := m.GetHttpService(); s != nil {
				s.ServerUri.HttpUpstreamType, s.ServerUri.Timeout = &corev3.HttpUri_Cluster{Cluster: httpProvider}, longer
			} else {
				m.GetGrpcService().GetEnvoyGrpc().ClusterName, m.GetGrpcService().Timeout = grpcProvider, longer
			}
		case *tcpauthzv3.ExtAuthz:
			m.GrpcService.GetEnvoyGrpc().ClusterName, m.GrpcService.Timeout = grpcProvider, longer
		}
		a, err := anypb.New(m)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	return out
}

// replacePeers puts in place of a range of peers' addresses the loopback addresses that stand for those within.
func replacePeers(p *rbacv3.Principal, peers map[string]string) {
	switch id := p.Identifier.(type) {
	case *rbacv3.Principal_AndIds:
		for _, p := range id.AndIds.Ids {
			replacePeers(p, peers)
		}
	case *rbacv3.Principal_OrIds:
		for _, p := range id.OrIds.Ids {
			replacePeers(p, peers)
		}
	case *rbacv3.Principal_NotId:
		replacePeers(id.NotId, peers)
	case *rbacv3.Principal_DirectRemoteIp:
		among := netip.PrefixFrom(netip.MustParseAddr(id.DirectRemoteIp.AddressPrefix), int(id.DirectRemoteIp.PrefixLen.GetValue())).Masked()
		nobody := &rbacv3.Principal{Identifier: &rbacv3.Principal_NotId{NotId: &rbacv3.Principal{Identifier: &rbacv3.Principal_Any{Any: true}}}}
		or := []*rbacv3.Principal{nobody}
		for peer, stands := range peers {
			if among.Contains(netip.MustParseAddr(peer)) {
				at := netip.MustParseAddr(stands)
				or = append(or, &rbacv3.Principal{Identifier: &rbacv3.Principal_DirectRemoteIp{
					DirectRemoteIp: &corev3.CidrRange{AddressPrefix: stands, PrefixLen: wrapperspb.UInt32(uint32(at.BitLen()))},
				}})
			}
		}
		p.Identifier = &rbacv3.Principal_OrIds{OrIds: &rbacv3.Principal_Set{Ids: or}}
	}
}

// probes returns filters that say of each pair of conditions, in metadata, whether Istio's and ours are fulfilled.
func (c *compared) probes(t *testing.T) (out []*anypb.Any) {
	t.Helper()
	for i, p := range c.pairs {
		for side, one := range []condition{p.theirs, p.ours} {
			f, err := anypb.New(&httprbacv3.RBAC{
				ShadowRules:           &rbacv3.RBAC{Policies: map[string]*rbacv3.Policy{"p": proto.CloneOf(one.rule())}},
				ShadowRulesStatPrefix: probe(i, side),
			})
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, f)
		}
	}
	return out
}

func probe(pair, side int) string { return fmt.Sprintf("probe-%d-%d-", pair, side) }

// fulfilled tells of an answer of the probes whether a condition is fulfilled.
func fulfilled(answer string, pair, side int) bool {
	return strings.Contains(answer, probe(pair, side)+"shadow_engine_result=allowed")
}

// judge asks for each value that rules name, and for those near it, what each condition says; and then whole requests.
func (c *compared) judge(by *client) error {
	type try struct {
		about string
		value any
	}
	tries, requests := []try{}, []asking{}
	for _, about := range slices.Sorted(maps.Keys(c.choices)) {
		for _, value := range c.choices[about] {
			tries, requests = append(tries, try{about, value}), append(requests, asking{}.with(about, value))
		}
	}
	answers, err := by.ask(requests, c.probed, false)
	if err != nil {
		return err
	}
	c.asked += len(requests)
	truth := map[string][]string{} // of each value of choices
	for i, answer := range answers {
		if !strings.HasPrefix(answer, "200 ") || strings.Count(answer, "shadow_engine_result=") != 2*len(c.pairs) {
			return fmt.Errorf("%v of %s: want what each condition says, got %q", tries[i].value, tries[i].about, answer)
		}
		for k, p := range c.pairs {
			if theirs, ours := fulfilled(answer, k, 0), fulfilled(answer, k, 1); theirs != ours {
				c.fault("%s: Istio's says %t, ours %t of %q", p.where, theirs, ours, tries[i].value)
			}
		}
		truth[tries[i].about] = append(truth[tries[i].about], answer)
	}
	requests = c.whole(truth)
	c.asked += len(requests)
	var said [2][]string
	for side, port := range c.at {
		if said[side], err = by.ask(requests, port, c.tcp); err != nil {
			return err
		}
	}
	for i, r := range requests {
		if status, _, _ := strings.Cut(said[0][i], " "); !slices.Contains([]string{"200", "402", "403"}, status) && !(c.tcp && status == "closed") {
			return fmt.Errorf("%v is answered %q", r, said[0][i])
		}
		if said[0][i] != said[1][i] {
			c.fault("requests: Istio's filters say %q, ours %q of %q", said[0][i], said[1][i], r)
		}
	}
	return nil
}

// whole returns requests that fulfil each permission and principal of each rule as far as they can, and such as differ from
// these in one value, of which conditions think differently.
func (c *compared) whole(truth map[string][]string) (out []asking) {
	seen := map[string]bool{}
	add := func(a asking) {
		key := fmt.Sprint(a)
		if seen[key] {
			return
		}
		seen[key] = true
		out = append(out, a)
		if c.mesh["extensionProviders"] != nil {
			out = append(out, a.with("header x-custom-id", []string{pass}))
		}
	}
	add(asking{})
	for _, rule := range c.rules {
		permissions, principals := conditionsOf(rule)
		for _, permission := range permissions {
			for _, principal := range principals {
				all := append(slices.Clone(permission), principal...)
				base := c.fulfilling(all, truth)
				add(base)
				for about, values := range c.choices {
					thought := map[string]bool{}
					for i, value := range values {
						if !thought[truth[about][i]] {
							thought[truth[about][i]] = true
							add(base.with(about, value))
						}
					}
				}
			}
		}
	}
	return out
}

// fulfilling returns a request with values of which most of the conditions that look at them are fulfilled.
func (c *compared) fulfilling(all []condition, truth map[string][]string) asking {
	of := map[string][]int{} // pairs by what they look at
	for k, p := range c.pairs {
		if slices.ContainsFunc(all, func(one condition) bool { return same(one, p.theirs) || same(one, p.ours) }) {
			about := strings.TrimPrefix(p.theirs.about(), "not ")
			if slices.Contains(claims[:], about) && c.choices[pairOfClaims] != nil {
				about = pairOfClaims
			}
			of[about] = append(of[about], k)
		}
	}
	base := asking{}
	for about, pairs := range of {
		best, most := -1, -1
		for i := range c.choices[about] {
			count := 0
			for _, k := range pairs {
				if fulfilled(truth[about][i], k, 0) {
					count++
				}
			}
			if count > most {
				best, most = i, count
			}
		}
		if best >= 0 {
			base = base.with(about, c.choices[about][best])
		}
	}
	return base
}

func same(a, b condition) bool {
	return a.permission != nil && a.permission == b.permission || a.principal != nil && a.principal == b.principal
}

// quoted returns the case with the names in Istio's expressions quoted, which have brackets in these tables; changed is false
// if there are none.
func (c policyCase) quoted(t *testing.T) (out policyCase, changed bool) {
	t.Helper()
	out = c
	out.repaired, out.wanted = true, nil
	for _, f := range c.wanted {
		m := unpacked(t, f)
		for _, l := range leavesOf(rbacOf(m)) {
			text, _ := l.match.(*matcherv3.StringMatcher)
			if re := text.GetSafeRegex(); re != nil && strings.ContainsAny(re.Regex, "[]") && l.about == "principal" {
				re.Regex, changed = strings.NewReplacer("[", `\[`, "]", `\]`).Replace(re.Regex), true
			}
		}
		a, err := anypb.New(m)
		if err != nil {
			t.Fatal(err)
		}
		out.wanted = append(out.wanted, a)
	}
	return out, changed
}

// Each case of Istio's tables of AuthorizationPolicy is judged by the real Envoy: its filters and ours give the same answers to
// the same requests, but for the differences that docs/compat.md lists with their reasons.
func TestIstioPolicies(t *testing.T) {
	judge := newPolicyJudge(t)
	by := &client{roots: judge.roots, peers: map[string]string{"127.0.0.1": "127.0.0.1"}, identities: map[string]*tls.Certificate{}}
	var all []*compared
	for _, one := range policyTables(t, filepath.Join(lab.IstioModule(t), "pilot", "pkg", "security", "authz", "builder")) {
		all = append(all, compare(t, one))
		if quoted, changed := one.quoted(t); changed {
			all = append(all, compare(t, quoted))
		}
	}
	addresses := lab.Addresses()
	for _, c := range all {
		for _, v := range c.choices["peer"] {
			if peer, ok := v.(string); ok && by.peers[peer] == "" {
				by.peers[peer] = fmt.Sprint(addresses, 1+len(by.peers))
				if !is4(peer) {
					by.peers[peer] = "::1"
				}
			}
		}
	}
	for _, c := range all {
		c.probed = judge.serve(t, served(t, c.probes(t), by.peers), false)
		for side, filters := range [][]*anypb.Any{c.theirs, c.ours} {
			c.at[side] = judge.serve(t, served(t, filters, by.peers), c.tcp)
		}
	}
	judge.start(t)
	var tasks sync.WaitGroup
	for _, c := range all {
		tasks.Go(func() {
			if err := c.judge(by); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
	tasks.Wait()
	report(t, all)
}

// report fails for each difference that is not listed, and for each that is listed and is none.
func report(t *testing.T, all []*compared) {
	t.Helper()
	listed := meant("http/", "tcp/")
	cases, differ, conditions, requests := 0, 0, 0, 0
	for _, c := range all {
		requests, conditions = requests+c.asked, conditions+len(c.pairs)
		if c.repaired {
			c.name += ", with names quoted"
		} else {
			cases += 1 + c.repeats
		}
		switch {
		case len(c.faults) == 0:
		case listed[c.name]:
			differ += 1 + c.repeats
			delete(listed, c.name)
		default:
			faults := slices.Sorted(maps.Keys(c.faults))
			t.Errorf("%s: %d differences:\n%.3000s", c.name, len(faults), strings.Join(faults[:min(5, len(faults))], "\n"))
		}
	}
	for name := range listed {
		t.Errorf("%s: does not differ, or is no case any more", name)
	}
	if cases < 49 {
		t.Errorf("%d cases, want Istio's tables", cases)
	}
	t.Logf("%d of %d cases agree, %d differ as listed; %d pairs of conditions, %d requests", cases-differ, cases, differ, conditions, requests)
}
