package xds

import (
	"github.com/pilotlight/pilotlight/discovery/authz"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// InboundOrigins tells which objects made the parts of the resources for traffic to a workload. Nothing is kept for it.
type InboundOrigins struct {
	mesh *model.Mesh
	view Inbound
}

// InboundOriginsOf returns the origins of what BuildInbound makes of a mesh for view v.
func InboundOriginsOf(m *model.Mesh, v Inbound) InboundOrigins { return InboundOrigins{m, v} }

// Port returns what decides which connections a port takes: the PeerAuthentication, then the services with an endpoint there.
func (o InboundOrigins) Port(port uint32) []model.Place {
	out := o.mesh.PeerPlaces(o.view.Namespace, o.view.Labels(), port)
	for _, s := range ownFirst(o.mesh.ServicesAt(o.view.addresses()...), o.view.Namespace) {
		for _, p := range fromServices([]*model.Service{s}, o.view) {
			if p.port() == port {
				out = append(out, model.Place{Meta: o.mesh.DeclaredBy(s)})
				break
			}
		}
	}
	return out
}

// Policy returns the rule of an AuthorizationPolicy that has a name in the filters.
func (o InboundOrigins) Policy(name string) []model.Place { return policyPlaces(o.mesh, name) }

// Policy is that of InboundOrigins, at a gateway.
func (o Origins) Policy(name string) []model.Place { return policyPlaces(o.mesh, name) }

func policyPlaces(m *model.Mesh, name string) []model.Place {
	namespace, policy, rule, ok := authz.ParseRuleName(name)
	if !ok {
		return nil
	}
	return m.RulePlaces(namespace, policy, rule)
}
