package xds

import (
	"fmt"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Origins tells which objects made the parts of a proxy's outbound resources. Nothing is kept for it: it reads, when it is asked,
// what translation keeps so as to reuse it, and the mesh that the resources were made of.
type Origins struct {
	mesh *model.Mesh
	view Outbound
	made *Resources
}

// OriginsOf returns the origins of r, which was made of a mesh for view v.
func OriginsOf(m *model.Mesh, v Outbound, r *Resources) Origins { return Origins{m, v, r} }

// Host returns what made a virtual host: its service, and its VirtualService; of the one for unknown hosts, what decides about these.
func (o Origins) Host(config, name string) (made Made) {
	if o.view.Gateway {
		return o.gatewayHost(config, name)
	}
	h, _, ok := o.find(config, name)
	if !ok && (name == allowAny || name == blockAll) {
		return o.Unknown()
	}
	if h.rule != nil {
		made.By = append(made.By, model.Place{Meta: h.rule.Meta})
	}
	if h.service != nil {
		made.By = append(made.By, model.Place{Meta: o.mesh.DeclaredBy(h.service)})
	}
	return made
}

// Routes returns what made the routes of a virtual host, by their index: the HTTP route of a VirtualService, or the service.
func (o Origins) Routes(config, name string) func(index int) []model.Place {
	if o.view.Gateway {
		return o.gatewayRoutes(config, name)
	}
	h, served, ok := o.find(config, name)
	if !ok {
		by := o.Host(config, name).By
		return func(int) []model.Place { return by }
	}
	var made []madeRoute
	if h.rule != nil {
		made = routesOf(router{scope: o.made.scope, gateway: model.MeshGateway, port: h.port}, o.mesh, h.rule)
	}
	return func(index int) []model.Place {
		switch {
		case len(made) == len(served.Routes) && index < len(made):
			return []model.Place{made[index].place}
		case len(made) > 0: // of another generation
		case h.service != nil:
			return []model.Place{{Meta: o.mesh.DeclaredBy(h.service)}}
		}
		return nil
	}
}

// gatewayRoutes returns the first routes of the gateway's rules that are equal to those of a virtual host, because its routes
// are those of several rules.
func (o Origins) gatewayRoutes(config, name string) func(index int) []model.Place {
	var served []*routev3.Route
	for _, c := range o.made.Routes {
		for _, h := range c.VirtualHosts {
			if c.Name == config && h.Name == name {
				served = h.Routes
			}
		}
	}
	var made []madeRoute
	servers, order := (&builder{mesh: o.mesh, view: o.view}).servers()
	for _, key := range order {
		for _, s := range servers[key] {
			if !s.http() || s.routeName() != config {
				continue
			}
			r := router{scope: o.made.scope, gateway: s.key(), port: s.Port.Number, encrypted: s.ends()}
			for _, rule := range o.mesh.GatewayRules(s.gateway, o.view.Namespace) {
				made = append(made, routesOf(r, o.mesh, rule)...)
			}
		}
	}
	return func(index int) []model.Place {
		for _, m := range made {
			if index < len(served) && proto.Equal(m.route, served[index]) {
				return []model.Place{m.place}
			}
		}
		return nil
	}
}

// Cluster returns what made a cluster: the service, and the DestinationRules of its policy.
func (o Origins) Cluster(name string) Made {
	s := serviceNamed(o.made.scope, name)
	switch {
	case s != nil:
		return Made{By: append([]model.Place{{Meta: o.mesh.DeclaredBy(s)}}, o.made.scope.PolicyPlaces(s)...)}
	case name == passthroughCluster, name == blackHoleCluster:
		return Made{Unmade: forEachSidecar}
	}
	return Made{}
}

// TLS returns what chose how a cluster begins connections; nil if its endpoints do.
func (o Origins) TLS(cluster string) []model.Place {
	s := serviceNamed(o.made.scope, cluster)
	if s == nil {
		return nil
	}
	parts := clusterParts(cluster)
	port, _ := strconv.ParseUint(parts[1], 10, 32) // a service has the cluster
	return o.made.scope.TLSPlaces(s, uint32(port), parts[2])
}

// Endpoint returns what declares the address of an endpoint of a cluster.
func (o Origins) Endpoint(cluster, address string) []model.Place {
	s := serviceNamed(o.made.scope, cluster)
	if s == nil {
		return nil
	}
	return o.mesh.EndpointPlaces(s, address)
}

// serviceNamed returns the service of a cluster, by the cluster's name; nil if it has none.
func serviceNamed(scope *model.Scope, cluster string) *model.Service {
	parts := clusterParts(cluster)
	if len(parts) != 4 || parts[0] != "outbound" || scope == nil {
		return nil
	}
	return scope.Service(parts[3])
}

// clusterParts splits the name of a cluster, or the server name that is one, into "outbound", port, subset and host.
func clusterParts(name string) []string {
	if strings.HasPrefix(name, "outbound_.") {
		return strings.SplitN(name, "_.", 4)
	}
	return strings.SplitN(name, "|", 4)
}

// find returns a virtual host with the inputs that it was made of.
func (o Origins) find(config, name string) (routedHost, *routev3.VirtualHost, bool) {
	for _, t := range o.made.tables {
		if t.config.Name != config {
			continue
		}
		for i, h := range t.hosts {
			if t.config.VirtualHosts[i].Name == name {
				return h, t.config.VirtualHosts[i], true
			}
		}
	}
	return routedHost{}, nil, false
}

// madeRoute is a route that a router makes of a rule, and its place there.
type madeRoute struct {
	route *routev3.Route
	place model.Place
}

func routesOf(r router, m *model.Mesh, rule *model.Config[*networking.VirtualService]) (out []madeRoute) {
	declared := m.RoutePlaces(rule)
	for at, route := range r.each(rule.Spec) {
		p := model.Place{Meta: rule.Meta}
		if at.http < len(declared) {
			p = declared[at.http]
			if at.match >= 0 && p.Meta.Key() == rule.Key() { // a delegate's matches are joined with those of its root
				p.Path += fmt.Sprintf(".match[%d]", at.match)
			}
		}
		out = append(out, madeRoute{route, p})
	}
	return out
}
