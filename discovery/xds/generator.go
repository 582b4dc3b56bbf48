package xds

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	mcpv1 "istio.io/api/mcp/v1alpha1"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/authz"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Proxyless reports whether the client is a gRPC library in a program, not an Envoy, by Istio's metadata GENERATOR.
func (p Proxy) Proxyless() bool { return p.Metadata.Extra["GENERATOR"] == "grpc" }

// buildProxyless returns the resources that gRPC clients read. A target xds:///HOST:PORT, whose host may be a short
// name, needs a listener of that name with an API listener, a route configuration with the name of the cluster, the
// cluster, and its endpoints.
func buildProxyless(m *model.Mesh, v Outbound) *Resources {
	scope, seen, out := m.Scope(v.Namespace, v.Labels()), observe(m.Settings(), tracerOf(m, v.Namespace), reports{}), &Resources{}
	rules := map[*model.Service]*networking.VirtualService{}
	for _, egress := range scope.Egress() {
		for _, s := range egress.Services {
			rules[s] = ruleSpec(egress.Rules.For(s.Host))
		}
	}
	for _, s := range scope.Services() {
		made := inputsOf(m, s, scope.DestinationRule(s), &v, v.sameIn(m, s)).clusters()
		for _, c := range made.Clusters {
			forGRPC(c)
		}
		out.Clusters, out.Endpoints = append(out.Clusters, made.Clusters...), append(out.Endpoints, made.Endpoints...)
		for _, port := range s.Ports {
			if !port.Protocol.IsHTTP() {
				continue
			}
			name := outboundName(port.Number, "", s.Host)
			aliases := aliasesIn(scope, s)
			for _, host := range append([]string{s.Host}, aliases...) {
				for _, form := range append([]string{host}, shortNames(host, v.Domain)...) {
					out.Listeners = append(out.Listeners, seen.apiListener(fmt.Sprintf("%s:%d", form, port.Number), name))
				}
			}
			out.Routes = append(out.Routes,
				&routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{{
					Name: name, Domains: domains(s, port.Number, v.Domain, v.Cluster, aliases...),
					Routes: router{scope: scope, gateway: model.MeshGateway, port: port.Number}.serviceRoutes(s.Host, rules[s]),
				}}})
		}
	}
	for i, a := range out.Endpoints {
		out.Endpoints[i] = withLocality(a)
	}
	return out.normalize()
}

func (o observed) apiListener(name, routes string) *listenerv3.Listener {
	manager := o.newHCM(name, corev3.TrafficDirection_OUTBOUND)
	manager.HttpFilters = manager.HttpFilters[len(manager.HttpFilters)-1:] // the router, which gRPC implements
	manager.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
		ConfigSource:    overADS(),
		RouteConfigName: routes,
	}}
	return &listenerv3.Listener{Name: name, ApiListener: &listenerv3.ApiListener{ApiListener: pack(manager)}}
}

// forGRPC removes from a cluster the settings that gRPC clients reject: C core does not implement LEAST_REQUEST, Java
// reads the maximum uint32 limit as -1, and encryption is configured in the channel. The balancer is kept if all
// clients implement it, and the request limit if it is configured. For names, the cluster type is LOGICAL_DNS, the only
// one that gRPC implements: it has one endpoint. gRPC rejects such a cluster with several endpoints, and clusters of
// type ORIGINAL_DST: calls to these fail at once, and no others.
func forGRPC(c *clusterv3.Cluster) {
	if c.GetClusterType() != nil {
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_LOGICAL_DNS}
		c.WaitForWarmOnInit = nil
	}
	switch c.LbPolicy {
	case clusterv3.Cluster_RING_HASH, clusterv3.Cluster_CLUSTER_PROVIDED:
	default:
		c.LbPolicy, c.LbConfig = clusterv3.Cluster_ROUND_ROBIN, nil
	}
	limits := c.CircuitBreakers.GetThresholds()
	c.CircuitBreakers = nil
	if n := limits[0].MaxRequests; n.GetValue() != unlimited().Value {
		c.CircuitBreakers = &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{MaxRequests: n}}}
	}
	c.TransportSocket, c.TransportSocketMatches = nil, nil
	c.TypedExtensionProtocolOptions, c.UpstreamConnectionOptions, c.CommonLbConfig = nil, nil, nil
}

// serverListenerPrefix is the prefix of the listener names that gRPC servers request; the server's address follows.
const serverListenerPrefix = "xds.istio.io/grpc/lds/inbound/"

// serverListeners returns listeners for each port of the workload, one for each address on which a server may listen.
// They pass requests to the program.
func (in InboundInputs) serverListeners() *Resources {
	r := &Resources{}
	addresses := append([]netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified(), netip.AddrFrom4([4]byte{127, 0, 0, 1})},
		in.view.addresses()...)
	for _, p := range in.ports() {
		if p.guard == guardClosed || p.guard == guardMutual {
			continue // the program's library would take plain text
		}
		for _, ip := range addresses {
			r.Listeners = append(r.Listeners, serverListener(netip.AddrPortFrom(ip, p.bind.Port())))
		}
	}
	policyFiltersOf(in.policies, in.mesh, authz.Proxy{}).ofGRPC().protect(r.Listeners)
	return r.normalize()
}

func serverListener(at netip.AddrPort) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name: serverListenerPrefix + at.String(), Address: socket(at.Addr().String(), uint32(at.Port())),
		FilterChains: []*listenerv3.FilterChain{{
			Name: "inbound",
			Filters: []*listenerv3.Filter{networkFilter(hcmFilter, &hcmv3.HttpConnectionManager{
				RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
					Name: "inbound",
					VirtualHosts: []*routev3.VirtualHost{{
						Name: "inbound", Domains: []string{"*"},
						Routes: []*routev3.Route{{Match: routeMatch(nil, false), Action: &routev3.Route_NonForwardingAction{
							NonForwardingAction: &routev3.NonForwardingAction{},
						}}},
					}},
				}},
				HttpFilters: []*hcmv3.HttpFilter{httpFilter(routerFilter, &routerv3.Router{})},
			})},
		}},
	}
}

// withLocality sets the name and the weight of localities where they are missing: gRPC ignores a locality without
// either.
func withLocality(a *endpointv3.ClusterLoadAssignment) *endpointv3.ClusterLoadAssignment {
	a = proto.Clone(a).(*endpointv3.ClusterLoadAssignment)
	for _, l := range a.Endpoints {
		if l.Locality == nil {
			l.Locality = &corev3.Locality{}
		}
		if l.LoadBalancingWeight == nil {
			l.LoadBalancingWeight = wrapperspb.UInt32(uint32(max(1, len(l.LbEndpoints))))
		}
	}
	return a
}

// meshConfigType is the type of MeshConfig in MCP over xDS. It is sent without an envelope.
const meshConfigType = "core/v1alpha1/MeshConfig"

// Objects returns the mesh's configuration objects in the form of Istio's API generator, by type: group/version/Kind.
// The objects of each type are ordered by namespace and name. encode is called for each object; it returns the result
// of EncodeObject, which the caller may cache. Objects that were received from another control plane are left out.
func Objects(m *model.Mesh, encode func(*model.Object) *anypb.Any) map[string][]*anypb.Any {
	objects := slices.DeleteFunc(slices.Clone(m.Objects()), func(o *model.Object) bool { return o.Origin.Record != nil && o.Origin.Record.Relayed })
	slices.SortStableFunc(objects, func(a, b *model.Object) int { return cmp.Compare(a.Key(), b.Key()) })
	out := map[string][]*anypb.Any{}
	last := "" // if two objects have one key, the older one is used and served
	for _, o := range objects {
		if o.Key() == last {
			continue
		}
		last = o.Key()
		if t := objectType(o); t != "" {
			out[t] = append(out[t], encode(o))
		}
	}
	return out
}

// objectType returns "" for kinds that Istio's generator does not serve.
func objectType(o *model.Object) string {
	switch o.Kind {
	case "MeshNetworks", "Challenge", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet":
		return ""
	case "MeshConfig":
		return meshConfigType
	case "ProxyConfig":
		return "networking.istio.io/v1beta1/" + o.Kind
	case "AuthorizationPolicy", "PeerAuthentication", "RequestAuthentication":
		return "security.istio.io/v1/" + o.Kind
	default:
		return "networking.istio.io/v1/" + o.Kind
	}
}

// EncodeObject encodes one object. Its version is a hash of its content: clients skip an object whose version did not
// change.
func EncodeObject(o *model.Object) *anypb.Any {
	spec, _ := o.Spec.(proto.Message)
	if config, ok := spec.(*meshconfig.MeshConfig); ok {
		return packed(config)
	}
	r := &mcpv1.Resource{Metadata: &mcpv1.Metadata{Name: o.Namespace + "/" + o.Name, Labels: o.Labels}, Body: packed(spec)}
	if !o.Created.IsZero() {
		r.Metadata.CreateTime = timestamppb.New(o.Created)
	}
	if o.DryRun {
		r.Metadata.Annotations = map[string]string{"istio.io/dry-run": "true"}
	}
	sum := sha256.Sum256(packed(r).Value)
	r.Metadata.Version = hex.EncodeToString(sum[:8])
	return packed(r)
}

// packed can fail only on text that is not UTF-8, which all our decoders reject.
func packed(m proto.Message) *anypb.Any {
	out := &anypb.Any{}
	if err := anypb.MarshalFrom(out, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic(err)
	}
	return out
}
