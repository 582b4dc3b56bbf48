package model_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	security "istio.io/api/security/v1beta1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func policy(id string, selector ...string) *model.Object {
	p := &security.AuthorizationPolicy{}
	for i := 0; i+1 < len(selector); i += 2 {
		if p.Selector == nil {
			p.Selector = &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{}}
		}
		p.Selector.MatchLabels[selector[i]] = selector[i+1]
	}
	return object("AuthorizationPolicy", id, 1, p)
}

// A workload has the policies of its namespace and of the root namespace whose selectors its labels fulfil.
func TestPoliciesOfAWorkload(t *testing.T) {
	m := meshOf(policy("shop/all"), policy("shop/web", "app", "web"), policy("shop/web-v2", "app", "web", "version", "v2"),
		policy("shop/version", "version", "v1"), policy("bank/all"), policy("istio-system/every"), policy("istio-system/web", "app", "web"))
	for want, at := range map[string]struct {
		namespace string
		labels    map[string]string
	}{
		"istio-system/every istio-system/web shop/all shop/version shop/web": {"shop", map[string]string{"app": "web", "version": "v1"}},
		"istio-system/every istio-system/web shop/all shop/web shop/web-v2":  {"shop", map[string]string{"app": "web", "version": "v2"}},
		"istio-system/every shop/all":                                        {"shop", nil},
		"bank/all istio-system/every istio-system/web":                       {"bank", map[string]string{"app": "web"}},
		"istio-system/every": {"istio-system", map[string]string{"app": "x"}},
	} {
		var got []string
		for _, p := range m.Policies(at.namespace, at.labels) {
			got = append(got, p.Namespace+"/"+p.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("in %s %v has %q, want %q", at.namespace, at.labels, got, want)
		}
	}
}

// A policy in its closed form has a note, which names the workloads and what is denied.
func TestClosedPoliciesAreNoted(t *testing.T) {
	everything := &security.AuthorizationPolicy{Action: security.AuthorizationPolicy_DENY, Rules: []*security.Rule{{}}}
	part := &security.AuthorizationPolicy{Action: security.AuthorizationPolicy_DENY, Rules: []*security.Rule{{To: []*security.Rule_To{{}}}}}
	for want, o := range map[string]*model.Object{
		"at the workloads of shop it allows nobody":                                                     object("AuthorizationPolicy", "shop/p", 1, &security.AuthorizationPolicy{}),
		"at all workloads every request is denied":                                                      object("AuthorizationPolicy", "istio-system/p", 1, everything),
		"at the workloads of shop what its rules name, as far as they can be read, is denied":           object("AuthorizationPolicy", "shop/p", 1, part),
		"at those of the workloads of shop with the labels of its selector it allows nobody; want it m": policy("shop/p", "app", "web"),
	} {
		o.Closed = true
		notes := meshOf(o).Notes()
		if len(notes) != 1 || notes[0].Code != model.ClosedPolicy || !strings.Contains(notes[0].Message, want) {
			t.Errorf("the notes are %v, want %q", notes, want)
		}
	}
}

// A gateway's view has the labels that select its policies, and its namespace; a sidecar's outbound view has neither.
func TestPoliciesOfAGatewayAreInItsView(t *testing.T) {
	m := meshOf(policy("edge/p", "app", "gw"), policy("istio-system/r", "tier", "front"))
	for gateway, want := range map[bool]string{true: "[app tier] edge", false: "[] (others)"} {
		keys := []string{}
		for key := range m.LabelsRead("edge", gateway) {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		namespace := m.NamespaceAs("edge")
		if gateway {
			namespace = m.GatewayNamespaceAs("edge")
		}
		if got := fmt.Sprint(keys, " ", namespace); got != want {
			t.Errorf("gateway %t: %s, want %s", gateway, got, want)
		}
	}
}
