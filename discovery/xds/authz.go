package xds

import (
	"cmp"
	"fmt"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/authz"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// policyFilters holds the filters of a workload's policies.
type policyFilters struct {
	http       []*hcmv3.HttpFilter
	tcp        []*listenerv3.Filter
	undetected []*listenerv3.Filter // before tcp, where HTTP is detected and was not
}

func policyFiltersOf(policies []model.Policy, mesh model.Settings, at authz.Proxy) (g policyFilters) {
	at.TrustDomains = mesh.TrustDomains()
	made := authz.Of(policies, at)
	for _, f := range made.HTTP {
		g.http = append(g.http, &hcmv3.HttpFilter{Name: f.Name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: f.Config}})
	}
	g.tcp, g.undetected = listenerFilters(made.TCP), listenerFilters(made.Undetected)
	return g
}

func listenerFilters(made []authz.Filter) (out []*listenerv3.Filter) {
	for _, f := range made {
		out = append(out, &listenerv3.Filter{Name: f.Name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: f.Config}})
	}
	return out
}

// authorizersOf returns the providers that policies name and that the proxies of a namespace can ask.
func authorizersOf(m *model.Mesh, namespace string, policies []model.Policy) (out []authz.Authorizer) {
	seen := map[string]bool{}
	for _, p := range policies {
		name := p.Spec.GetProvider().GetName()
		if p.Spec.GetAction() != security.AuthorizationPolicy_CUSTOM || seen[name] {
			continue
		}
		seen[name] = true
		if a, fault := m.Authorizer(name, namespace); fault == "" {
			out = append(out, authz.Authorizer{Provider: a.Provider, Cluster: outboundName(a.Port, "", a.Host)})
		}
	}
	return out
}

// ofGRPC returns the filters of a gRPC server, which wants a name of its own for each filter. It refuses a listener with a
// condition that it does not know, and then serves nobody.
func (g policyFilters) ofGRPC() policyFilters {
	for i, f := range g.http {
		f.Name = fmt.Sprintf("%s.%d", f.Name, i)
	}
	return g
}

// protect puts the filters of policies before all others into each chain of finished listeners: a chain that is made in
// another way one day has them without knowing of them.
func (g policyFilters) protect(listeners []*listenerv3.Listener) {
	if len(g.http)+len(g.tcp) == 0 {
		return
	}
	for _, l := range listeners {
		for _, c := range l.FilterChains {
			c.Filters = g.before(c.Filters)
		}
		if l.DefaultFilterChain != nil {
			l.DefaultFilterChain.Filters = g.before(l.DefaultFilterChain.Filters)
		}
	}
}

// undetectedAt has each chain for bytes of a workload's listeners begin with the filters for what is not detected, where its port has a
// chain for HTTP too: a request that Envoy takes for bytes reaches the workload as it is. open are the ports at which it stays open.
func (g policyFilters) undetectedAt(listeners []*listenerv3.Listener, open []uint32) {
	if len(g.undetected) == 0 {
		return
	}
	for _, l := range listeners {
		ofHTTP := map[uint32]bool{}
		all := slices.Clone(l.FilterChains)
		if l.DefaultFilterChain != nil {
			all = append(all, l.DefaultFilterChain)
		}
		port := func(c *listenerv3.FilterChain) uint32 {
			return cmp.Or(c.GetFilterChainMatch().GetDestinationPort().GetValue(), l.GetAddress().GetSocketAddress().GetPortValue())
		}
		for _, c := range all {
			ofHTTP[port(c)] = ofHTTP[port(c)] || takesHTTP(c)
		}
		for _, c := range all {
			if ofHTTP[port(c)] && !takesHTTP(c) && !slices.Contains(open, port(c)) {
				c.Filters = append(slices.Clone(g.undetected), c.Filters...)
			}
		}
	}
}

func takesHTTP(c *listenerv3.FilterChain) bool {
	return slices.ContainsFunc(c.Filters, func(f *listenerv3.Filter) bool { return f.Name == hcmFilter })
}

// before returns the filters of a chain behind those of policies: those of requests within each connection manager, and
// those of connections where there is none.
func (g policyFilters) before(filters []*listenerv3.Filter) []*listenerv3.Filter {
	requests := false
	out := slices.Clone(filters)
	for i, f := range out {
		m := &hcmv3.HttpConnectionManager{}
		if !f.GetTypedConfig().MessageIs(m) {
			continue
		}
		if err := f.GetTypedConfig().UnmarshalTo(m); err != nil { // it was packed here
			panic(fmt.Sprintf("read filter %s: %v", f.Name, err))
		}
		m.HttpFilters = append(slices.Clone(g.http), m.HttpFilters...)
		guarded := proto.CloneOf(f)
		guarded.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: pack(m)}
		out[i], requests = guarded, true
	}
	if requests {
		return out
	}
	return append(slices.Clone(g.tcp), out...)
}
