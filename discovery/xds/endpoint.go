package xds

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// candidate is one endpoint of a cluster before it is sorted into the assignment.
type candidate struct {
	address  *corev3.Address
	locality model.Locality
	labels   map[string]string
	weight   uint32
	priority uint32
	health   model.Health
	node     string
	mutual   bool // its proxy takes mutual TLS
}

// assignment returns the endpoints of a port that the subset's labels select, ordered by locality and address. For a
// service without endpoints it returns an empty assignment: without one Envoy would wait.
func (t target) assignment() *endpointv3.ClusterLoadAssignment {
	chosen := t.local(t.reachable())
	out := &endpointv3.ClusterLoadAssignment{ClusterName: t.name()}
	all := make([]*endpointv3.LbEndpoint, 0, len(chosen)) // those of one group lie side by side
	var last *candidate
	first := 0 // of the group
	for _, at := range sorted(chosen) {
		c := &chosen[at]
		if last == nil || last.priority != c.priority || last.locality != c.locality {
			out.Endpoints = append(out.Endpoints,
				&endpointv3.LocalityLbEndpoints{Locality: locality(c.locality), Priority: c.priority})
			first = len(all)
		}
		e := lbEndpoint(c.address, c.weight)
		e.HealthStatus = healthStatus(c.health)
		if c.mutual {
			e.Metadata = peerMetadata()
		}
		all = append(all, e)
		out.Endpoints[len(out.Endpoints)-1].LbEndpoints = all[first:len(all):len(all)]
		last = c
	}
	t.distribute(out)
	return out
}

// sorted returns the indexes of candidates by priority, locality and address.
func sorted(chosen []candidate) []int {
	order, places := make([]int, len(chosen)), make([]string, len(chosen))
	for i, c := range chosen {
		if order[i] = i; i > 0 && c.locality == chosen[i-1].locality {
			places[i] = places[i-1]
		} else {
			places[i] = c.locality.String()
		}
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &chosen[i], &chosen[j]
		x, y := a.address.GetSocketAddress(), b.address.GetSocketAddress()
		if n := cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(places[i], places[j]), cmp.Compare(x.GetAddress(), y.GetAddress())); n != 0 {
			return n
		}
		return cmp.Or(cmp.Compare(x.GetPortValue(), y.GetPortValue()), cmp.Compare(a.address.GetPipe().GetPath(), b.address.GetPipe().GetPath()), i-j)
	})
	return order
}

// reachable returns the endpoints at the addresses by which the proxy reaches them: the gateways of another network
// stand for its endpoints. While no endpoint takes requests, those that end and still serve do.
func (t target) reachable() []candidate {
	out := make([]candidate, 0, len(t.service.Endpoints))
	remote := map[string]int{} // gateway's address → index in out
	scale := scaleOf(t.mesh)
	ending := !slices.ContainsFunc(t.service.Endpoints, func(e model.Endpoint) bool {
		return t.selects(e) && e.Health.TakesRequests()
	})
	for _, e := range t.service.Endpoints {
		if !t.selects(e) {
			continue
		}
		if ending && e.Health == model.HealthTerminating {
			e.Health = model.HealthUnknown
		}
		if e.Health == model.HealthUnready || e.Health == model.HealthTerminating {
			continue // else its locality would lose a share of its traffic to others
		}
		if t.policy.panicsBelow() > 0 && !e.Health.TakesRequests() {
			continue // Envoy would send requests to it in a panic
		}
		address, ok := t.addressOf(e)
		behind := e.Address == "" && e.Network != "" // only the gateways of its network can reach it
		if !ok && !behind {
			continue
		}
		weight := uint32(min(uint64(max(e.Weight, 1))*uint64(scale), maxWeight))
		network := networkOf(e, t.mesh)
		gateways := gatewaysOf(network, t.mesh)
		near := network == t.view.Network || network == "" || t.view.Network == "" ||
			len(t.mesh.Networks.GetNetworks()) == 0
		switch {
		case !near && t.entered: // requests would circulate between the gateways
			continue
		case behind && (near || len(gateways) == 0):
			continue
		case near || len(gateways) == 0:
			out = append(out, candidate{address, e.Locality, e.Labels, weight, 0, e.Health, e.Node, t.mutual(e)})
			continue
		case !e.Health.TakesRequests(): // the gateway would send requests to it
			continue
		}
		weight = max(weight/uint32(len(gateways)), 1)
		for _, g := range gateways {
			key := fmt.Sprint(g, e.Locality, t.mutual(e))
			if i, known := remote[key]; known {
				out[i].weight = uint32(min(uint64(out[i].weight)+uint64(weight), maxWeight))
				continue
			}
			remote[key] = len(out)
			out = append(out, candidate{socket(g.Addr().String(), uint32(g.Port())), e.Locality, e.Labels, weight, 0, model.HealthUnknown, e.Node, t.mutual(e)})
		}
	}
	return out
}

// selects reports whether an endpoint is one of the target, wherever it is.
func (t target) selects(e model.Endpoint) bool {
	return model.Selects(t.subset.GetLabels(), e.Labels) && e.PortOn(t.port) != 0 &&
		(!t.service.NodeLocal || t.view.Node == "" || e.Node == t.view.Node) && !t.view.withheld(t.service, e, t.port, t.same, t.mesh) &&
		!(t.mesh.Doors.Lead(e.Address, e.PortOn(t.port)) && t.lends(e))
}

// lends reports whether the cluster shows an endpoint a certificate that may be the proxy's own: of files too, unless the root namespace names them.
func (t target) lends(e model.Endpoint) bool {
	switch tls := t.policy.tls; tls.GetMode() {
	case networking.ClientTLSSettings_ISTIO_MUTUAL:
		return true
	case networking.ClientTLSSettings_MUTUAL:
		return tls.CredentialName == "" && t.service.Namespace != t.mesh.RootNamespace()
	default:
		return t.mutual(e)
	}
}

// healthStatus returns an endpoint's health as Envoy's status. Envoy treats UNKNOWN as healthy.
func healthStatus(h model.Health) corev3.HealthStatus {
	switch h {
	case model.HealthDraining:
		return corev3.HealthStatus_DRAINING
	case model.HealthUnhealthy:
		return corev3.HealthStatus_UNHEALTHY
	default:
		return corev3.HealthStatus_UNKNOWN
	}
}

// maxWeight is the largest weight of an endpoint.
const maxWeight = math.MaxUint32

// addressOf returns the address of an endpoint for the port; false for an address that Envoy would reject.
func (t target) addressOf(e model.Endpoint) (*corev3.Address, bool) {
	port := e.PortOn(t.port)
	if path, ok := isUnix(e.Address); ok {
		return pipe(path), path != "" && port > 0
	}
	if !t.service.Resolution.IsDNS() && !isIP(e.Address) || e.Address == "" || model.IsWildcard(e.Address) {
		return nil, false
	}
	return socket(e.Address, port), port > 0 && port <= 65535
}

func locality(l model.Locality) *corev3.Locality {
	if l == (model.Locality{}) {
		return nil
	}
	return &corev3.Locality{Region: l.Region, Zone: l.Zone, SubZone: l.SubZone}
}

func loadAssignment(cluster string, endpoints []*endpointv3.LbEndpoint) *endpointv3.ClusterLoadAssignment {
	out := &endpointv3.ClusterLoadAssignment{ClusterName: cluster}
	if len(endpoints) > 0 {
		out.Endpoints = []*endpointv3.LocalityLbEndpoints{{LbEndpoints: endpoints}}
	}
	return out
}

func lbEndpoint(address *corev3.Address, weight uint32) *endpointv3.LbEndpoint {
	out := &endpointv3.LbEndpoint{
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address}},
	}
	if weight > 1 {
		out.LoadBalancingWeight = wrapperspb.UInt32(weight)
	}
	return out
}

func socket(address string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       address,
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

func pipe(path string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
}

// canonical returns an IP address in its canonical spelling; any other string is unchanged. Envoy rejects two listeners
// at one address, also if the spellings differ.
func canonical(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil {
		return ip.String()
	}
	return address
}

func isIP(address string) bool {
	_, err := netip.ParseAddr(address)
	return err == nil
}

// An endpoint at an address that is local to the proxy that dials it (see model.Local) leads to the proxy's own sockets.
// Proxies of other namespaces do not get it. Nearly no service has one; only for those that do, clusters depend on the
// namespace of the proxy.

// sameIn reports whether the proxy is in the namespace of the service, if an endpoint of the service depends on it.
func (v Outbound) sameIn(m *model.Mesh, s *model.Service) bool {
	return (v.own != "" || m.HasLocal(s)) && s.Namespace == v.Namespace
}

// withheld reports whether the proxy does not get an endpoint for a port. same is whether both are in one namespace.
func (v Outbound) withheld(s *model.Service, e model.Endpoint, p model.Port, same bool, mesh model.Settings) bool {
	local := model.LocalAddress(e.Address)
	if local == model.NotLocal && v.own != "" && v.owns(e.Address) {
		local = model.OwnAddress
	}
	if local == model.NotLocal && !v.Gateway {
		return false
	}
	to := model.Recipient{Gateway: v.Gateway, Same: same, Own: v.Own}
	return mesh.Withheld(local, e.PortOn(p), s.Namespace == mesh.RootNamespace(), to)
}

func (v Outbound) owns(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && slices.Contains(parseAddresses(v.own), ip.Unmap())
}

// claimedIn returns the own addresses that are endpoints which the proxy may not have.
func (v Outbound) claimedIn(m *model.Mesh) string {
	if v.own == "" {
		return ""
	}
	var out []string
	for _, ip := range parseAddresses(v.own) {
		if m.ForeignAt(ip, v.Namespace, v.Gateway, v.Own) {
			out = append(out, ip.String())
		}
	}
	return strings.Join(out, ",")
}
