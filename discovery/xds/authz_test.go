package xds

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	security "istio.io/api/security/v1beta1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/authz"
	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Each chain that leads to a workload begins with the filters of its policies, whatever kind of chain and listener it is:
// tokens, AUDIT, DENY, ALLOW.
func TestEveryChainIsGuarded(t *testing.T) {
	policies := `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: allow, namespace: istio-system}
spec: {rules: [{from: [{source: {namespaces: [a]}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: deny, namespace: istio-system}
spec: {action: DENY, rules: [{to: [{operation: {ports: ["1"]}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: audit, namespace: istio-system}
spec: {action: AUDIT, rules: [{}]}
---
`
	chains := 0
	for _, file := range []string{"access", "gateway", "sniff", "tproxy", "none", "dual", "redirect", "agent-gateway", "peer", "peer-closed", "peer-none", "tokens"} {
		m, v := scenarioMesh(t, file, policies)
		for _, l := range guarded(Build(m, v), v) {
			all := l.FilterChains
			if l.DefaultFilterChain != nil {
				all = append(slices.Clone(all), l.DefaultFilterChain)
			}
			for _, c := range all {
				chains++
				want, got := "envoy.filters.network.rbac envoy.filters.network.rbac envoy.filters.network.rbac", filterNames(c)
				if strings.HasPrefix(got, "http ") {
					want = "http envoy.filters.http.rbac envoy.filters.http.rbac envoy.filters.http.rbac"
				}
				if file == "tokens" {
					want = strings.Replace(want, "http ", "http envoy.filters.http.jwt_authn ", 1)
				}
				if !strings.HasPrefix(got, want) {
					t.Errorf("%s: listener %s, chain %q has the filters %s", file, l.Name, c.Name, got)
				}
			}
		}
	}
	if chains < 20 {
		t.Errorf("there are %d chains", chains)
	}
}

// guarded returns the listeners that policies protect: those of a gateway, and of a sidecar those to its workload.
func guarded(r *Resources, v View) (out []*listenerv3.Listener) {
	for _, l := range r.Listeners {
		if v.Outbound.Gateway && l.GetUdpListenerConfig() == nil || l.TrafficDirection.String() == "INBOUND" {
			out = append(out, l)
		}
	}
	return out
}

func filterNames(c *listenerv3.FilterChain) string {
	var out []string
	for _, f := range c.Filters {
		m := &hcmv3.HttpConnectionManager{}
		if f.GetTypedConfig().UnmarshalTo(m) != nil {
			out = append(out, f.Name)
			continue
		}
		out = append(out, "http")
		for _, h := range m.HttpFilters {
			out = append(out, h.Name)
		}
	}
	return strings.Join(out, " ")
}

// A gRPC server refuses two filters of one name.
func TestFiltersOfGRPCHaveNamesOfTheirOwn(t *testing.T) {
	all := []*security.AuthorizationPolicy{{Action: security.AuthorizationPolicy_DENY, Rules: []*security.Rule{{}}}, {}}
	var policies []model.Policy
	for i, p := range all {
		policies = append(policies, model.Policy{Namespace: "n", Name: fmt.Sprint(i), Spec: p})
	}
	g := policyFiltersOf(policies, model.Settings{}, authz.Proxy{}).ofGRPC()
	if len(g.http) != 2 || g.http[0].Name == g.http[1].Name {
		t.Errorf("the filters are %v", g.http)
	}
}

// Of 1,000 policies, each of a workload of its own, a change of one makes the inbound resources of one workload anew.
func TestAPolicyCostsWhatItSelects(t *testing.T) {
	const n = 1000
	label := func(i int) map[string]string { return map[string]string{"app": fmt.Sprint("w", i), "tier": "back"} }
	object := func(i int, path string) *model.Object {
		return &model.Object{Meta: model.Meta{Kind: "AuthorizationPolicy", Namespace: "shop", Name: fmt.Sprint("p", i)}, Spec: &security.AuthorizationPolicy{
			Selector: &typev1beta1.WorkloadSelector{MatchLabels: label(i)},
			Rules:    []*security.Rule{{To: []*security.Rule_To{{Operation: &security.Operation{Paths: []string{path}}}}}},
		}}
	}
	var groups []model.Group
	for i := range n {
		groups = append(groups, model.Group{Objects: []*model.Object{object(i, "/")}})
	}
	m := model.New(slices.Values(groups))
	view := func(i int) Inbound {
		return Inbound{Namespace: "shop", IP: "127.0.0.11", ips: "127.0.0.11", labels: encodeLabels(label(i))}
	}
	before := make([]InboundInputs, n)
	for i := range n {
		if before[i] = InboundOf(m, view(i)); len(before[i].policies) != 1 {
			t.Fatalf("workload %d has %d policies, want its own", i, len(before[i].policies))
		}
	}
	groups[7] = model.Group{Objects: []*model.Object{object(7, "/other")}}
	next := m.Next(slices.Values(groups))
	made := 0
	for i := range n {
		now := InboundOf(next, view(i))
		if now.Same(before[i]) {
			continue
		}
		made++
		if i != 7 || sameResources(now.Build(), before[i].Build()) {
			t.Errorf("workload %d is made anew", i)
		}
	}
	if made != 1 {
		t.Errorf("%d workloads are made anew, want 1", made)
	}
}

func scenarioMesh(t *testing.T, file, further string) (*model.Mesh, View) {
	t.Helper()
	header, text := readScenario(t, file)
	proxy, settings := scenarioProxy(t, header)
	objects, _ := config.Decode(file, []byte(further+text))
	return model.NewIn(domainOf(t, header), slices.Values([]model.Group{{Objects: append(objects, settings...)}})), ViewOf(proxy)
}

func readScenario(t *testing.T, file string) (header, text string) {
	t.Helper()
	data, err := os.ReadFile("testdata/scenario/" + file + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	text = strings.ReplaceAll(string(data), "/CERTS/", certificates(t)+"/")
	first, _, _ := strings.Cut(text, "\n")
	return strings.TrimPrefix(first, "# "), text
}
