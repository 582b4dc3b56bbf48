package model

import (
	"slices"
	"strings"
	"testing"

	security "istio.io/api/security/v1beta1"
	typev1beta1 "istio.io/api/type/v1beta1"
)

// A policy that names callers of a namespace in which nothing is known, or selects workloads that no namespace has, is noted.
func TestCallersThatDoNotExistAreNoted(t *testing.T) {
	from := func(source *security.Source) *security.AuthorizationPolicy {
		return &security.AuthorizationPolicy{Rules: []*security.Rule{{}, {From: []*security.Rule_From{{}, {Source: source}}}}}
	}
	selects := func(key, value string) *security.AuthorizationPolicy {
		return &security.AuthorizationPolicy{Selector: &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{key: value}}}
	}
	const at = "spec.rules[1].from[1].source."
	for name, test := range map[string]struct {
		namespace string
		spec      *security.AuthorizationPolicy
		want      []string
	}{
		"known, by a service, a workload, a proxy, an object": {"shop", from(&security.Source{
			Namespaces: []string{"*", "shop", "vms", "clients", "policies", "istio-system"}, NotNamespaces: []string{"sh*", "*nts", "*"},
		}), nil},
		"not known": {"shop", from(&security.Source{Namespaces: []string{"shop", "shpo"}, NotNamespaces: []string{"vault"}}), []string{
			at + "namespaces[1]: nothing is known of namespace shpo; did you mean shop?",
			at + "notNamespaces[0]: nothing is known of namespace vault; want one of bare, clients, istio-system, policies, shop, vms",
		}},
		"not known, by a part": {"shop", from(&security.Source{Namespaces: []string{"bank-*", "*-bank"}}), []string{
			at + "namespaces[0]: nothing is known of a namespace that bank-* stands for; want one of bare, clients, istio-system, policies, shop, vms",
			at + "namespaces[1]: nothing is known of a namespace that *-bank stands for; want one of bare, clients, istio-system, policies, shop, vms",
		}},
		"all workloads with a label":        {"istio-system", selects("app", "web"), nil},
		"a label that no workload has":      {"istio-system", selects("app", "webb"), []string{"spec.selector.matchLabels.app: no workload that is known has app=webb; did you mean app=web?"}},
		"workloads of which none is known":  {"policies", &security.AuthorizationPolicy{}, []string{": no workload that is known has namespace policies: this has no effect until one comes"}},
		"workloads without labels":          {"bare", &security.AuthorizationPolicy{}, nil},
		"a label of which nothing is known": {"istio-system", selects("tier", "front"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(slices.Values([]Group{{
				Services:  []*Service{{Right: RightFull, Host: "a.test", Namespace: "shop", Endpoints: []Endpoint{{Address: "10.0.0.1", Labels: map[string]string{"app": "web"}}}}},
				Workloads: []*Workload{{Namespace: "vms", Labels: map[string]string{"os": "linux"}}},
				Objects: []*Object{
					object("AuthorizationPolicy", test.namespace, "p", 1, test.spec),
					object("AuthorizationPolicy", "policies", "q", 1, selects("app", "web")),
				},
			}}))
			var got []string
			for _, n := range m.Notes(Proxy{Namespace: "clients", Labels: map[string]string{"app": "client"}}, Proxy{Namespace: "bare"}) {
				got = append(got, n.Path+": "+n.Message)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("notes are\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(test.want, "\n\t"))
			}
		})
	}
}
