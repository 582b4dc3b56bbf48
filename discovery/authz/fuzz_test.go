package authz_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/authz"
	"github.com/pilotlight/pilotlight/discovery/authz/authztest"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// maker makes policies and requests of a few values, so that they meet.
type maker struct{ *rand.Rand }

func (m maker) some(values ...string) (out []string) {
	for range m.IntN(3) {
		out = append(out, values[m.IntN(len(values))])
	}
	return out
}

func (m maker) one(values ...string) string { return values[m.IntN(len(values))] }

var (
	someAddresses = []string{"127.0.0.1", "127.0.0.8/30", "::1", "10.0.0.0/8"}
	someNames     = []string{"cluster.local/ns/shop/sa/a", "*/sa/a", "*", "cluster.local/ns/b/*"}
	somePaths     = []string{"/a", "/a*", "*/b", "/{*}/b", "/a/{**}"}
	brokenValues  = []string{"", "a\nb", strings.Repeat("a", 3000), "/{x}/a\x00"} // to no list any of them means something
	brokenKeys    = []string{"source.ipp", "request.headers", "request.headers[a b]", "request.auth.claims[]", "", "destination.labels[a]"}
)

func (m maker) rule() *security.Rule {
	r := &security.Rule{}
	for range m.IntN(3) {
		s := &security.Source{
			Principals: m.some(someNames...), NotPrincipals: m.some(someNames...), Namespaces: m.some("shop", "b*"),
			NotNamespaces: m.some("shop", "c"), IpBlocks: m.some(someAddresses...), NotIpBlocks: m.some(someAddresses...),
			RemoteIpBlocks: m.some(someAddresses...), TrustDomains: m.some("cluster.local", "*.test"),
		}
		r.From = append(r.From, &security.Rule_From{Source: s})
	}
	for range m.IntN(3) {
		r.To = append(r.To, &security.Rule_To{Operation: &security.Operation{
			Hosts: m.some("web.test", "*.test"), NotHosts: m.some("other.test"), Ports: m.some("80", "81"), NotPorts: m.some("81", "82"),
			Methods: m.some("GET", "POST"), NotMethods: m.some("POST", "PUT"), Paths: m.some(somePaths...), NotPaths: m.some(somePaths...),
		}})
	}
	for range m.IntN(2) {
		r.When = append(r.When, &security.Condition{
			Key:    m.one("request.headers[x]", "source.ip", "destination.port", "source.namespace"),
			Values: m.some("a", "127.0.0.1", "80", "shop"), NotValues: m.some("a", "10.0.0.0/8", "81", "b"),
		})
	}
	return r
}

func (m maker) request() authztest.Request {
	r := authztest.Request{
		Principal: m.one("", "spiffe://cluster.local/ns/shop/sa/a", "spiffe://cluster.local/ns/b/sa/b", "spiffe://x.test/ns/c/sa/a"),
		Peer:      m.one("127.0.0.1", "127.0.0.9", "10.1.1.1", "::1"), Remote: m.one("127.0.0.1", "10.1.1.1"),
		Method: m.one("GET", "POST"), Host: m.one("web.test", "other.test"), Path: m.one("/a", "/a/b", "/c/b", "/d"),
		Port: 80 + uint32(m.IntN(3)), Connection: m.IntN(5) == 0,
	}
	if m.IntN(2) == 0 {
		r.Headers = map[string]string{"x": m.one("a", "b")}
	}
	return r.Whole()
}

// spoil breaks one part of a rule: a value, a key, or a condition that nobody knows.
func (m maker) spoil(rule *security.Rule) {
	lists := []*[]string{}
	for _, f := range rule.From {
		s := f.Source
		lists = append(lists, &s.Principals, &s.NotPrincipals, &s.Namespaces, &s.NotNamespaces, &s.IpBlocks, &s.NotIpBlocks, &s.RemoteIpBlocks)
	}
	for _, t := range rule.To {
		o := t.Operation
		lists = append(lists, &o.Hosts, &o.NotHosts, &o.Ports, &o.NotPorts, &o.Methods, &o.Paths, &o.NotPaths)
	}
	lists = slices.DeleteFunc(lists, func(l *[]string) bool { return len(*l) == 0 })
	switch {
	case len(rule.When) > 0 && m.IntN(3) == 0:
		rule.When[m.IntN(len(rule.When))].Key = m.one(brokenKeys...)
	case len(lists) > 0:
		list := *lists[m.IntN(len(lists))]
		list[m.IntN(len(list))] = m.one(brokenValues...)
	default:
		rule.When = append(rule.When, &security.Condition{Key: m.one(brokenKeys...), Values: []string{"a"}})
	}
}

// Nothing opens: what a denial has denied, it denies still when a part of it is broken; and a broken allowance lets in
// nobody that the sound one does not.
func FuzzABrokenPolicyStaysClosed(f *testing.F) {
	for i := range uint64(200) {
		f.Add(i, i*7919)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		m := maker{rand.New(rand.NewPCG(a, b))}
		for _, action := range []security.AuthorizationPolicy_Action{security.AuthorizationPolicy_DENY, security.AuthorizationPolicy_ALLOW, security.AuthorizationPolicy_CUSTOM} {
			sound := &security.AuthorizationPolicy{Action: action}
			for range 1 + m.IntN(3) {
				sound.Rules = append(sound.Rules, m.rule())
			}
			broken := proto.CloneOf(sound)
			for range 1 + m.IntN(2) {
				m.spoil(broken.Rules[m.IntN(len(broken.Rules))])
			}
			before, after := guardOf(sound), guardOf(broken)
			for range 50 {
				r := m.request()
				if was, is := authztest.Allowed(before, r), authztest.Allowed(after, r); is && !was {
					t.Fatalf("%s lets in %+v once it is broken:\n%v\n%v", action, r, sound, broken)
				}
			}
		}
	})
}

func guardOf(all ...*security.AuthorizationPolicy) authz.Guard {
	var policies []model.Policy
	for i, p := range all {
		policies = append(policies, model.Policy{Namespace: "shop", Name: strconv.Itoa(i), Spec: p})
	}
	return authz.Of(policies, authz.Proxy{TrustDomains: []string{"cluster.local"}})
}
