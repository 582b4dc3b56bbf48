package model

import (
	"cmp"
	"slices"
	"sort"

	security "istio.io/api/security/v1beta1"
)

// Policy is an AuthorizationPolicy, or a RequestAuthentication: one of Spec and Tokens is not nil. It is comparable: equal
// policies have the same effect.
type Policy struct {
	Namespace, Name string
	Spec            *security.AuthorizationPolicy
	Tokens          *security.RequestAuthentication
	DryRun, Closed  bool // as in Meta
}

func (p Policy) selector() map[string]string {
	if p.Tokens != nil {
		return p.Tokens.GetSelector().GetMatchLabels()
	}
	return p.Spec.GetSelector().GetMatchLabels()
}

// labelPair is one label of a workload.
type labelPair struct{ key, value string }

// namespacePolicies are the policies of one namespace, in a form in which those of a workload are found by its labels.
type namespacePolicies struct {
	all      []Policy               // without a selector
	selected map[labelPair][]Policy // by the label of their selectors whose key sorts first
	keys     labelKeys              // of their selectors
}

// policies are all policies, by their namespaces.
type policies map[string]*namespacePolicies

// add is called for the oldest object first.
func (p policies) add(meta Meta, policy Policy) {
	n := p[meta.Namespace]
	if n == nil {
		n = &namespacePolicies{selected: map[labelPair][]Policy{}, keys: labelKeys{}}
		p[meta.Namespace] = n
	}
	policy.Namespace, policy.Name, policy.DryRun, policy.Closed = meta.Namespace, meta.Name, meta.DryRun, meta.Closed
	first, some := firstLabel(policy.selector())
	if !some {
		n.all = append(n.all, policy)
		return
	}
	n.selected[first] = append(n.selected[first], policy)
	n.keys.read(policy.selector())
}

func firstLabel(selector map[string]string) (first labelPair, some bool) {
	for key, value := range selector {
		if !some || key < first.key {
			first, some = labelPair{key, value}, true
		}
	}
	return first, some
}

func (p policies) labels() map[string]labelKeys {
	out := map[string]labelKeys{}
	for namespace, n := range p {
		out[namespace] = n.keys
	}
	return out
}

// Policies returns the policies that apply to a workload, ordered by namespace and name: those of its namespace and of
// the root namespace, without a selector or with one that its labels fulfil. Only policies that share a label with the
// workload are looked at.
func (m *Mesh) Policies(namespace string, labels map[string]string) []Policy {
	var out []Policy
	root := m.settings.RootNamespace()
	for _, at := range slices.Compact([]string{root, namespace}) {
		n := m.policies[at]
		if n == nil {
			continue
		}
		out = append(out, n.all...)
		for key, value := range labels {
			for _, policy := range n.selected[labelPair{key, value}] {
				if Selects(policy.selector(), labels) {
					out = append(out, policy)
				}
			}
		}
	}
	sortPolicies(out)
	return out
}

func sortPolicies(all []Policy) {
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i], all[j]
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
	})
}
