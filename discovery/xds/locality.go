package xds

import (
	"cmp"
	"net/netip"
	"slices"
	"sort"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Labels that mean parts of a locality in a failoverPriority list.
const (
	regionLabel  = "topology.kubernetes.io/region"
	zoneLabel    = "topology.kubernetes.io/zone"
	subZoneLabel = "topology.istio.io/subzone"
)

// localitySetting returns the locality settings of the target, or nil if locality load balancing is off.
func (t target) localitySetting() *networking.LocalityLoadBalancerSetting {
	s := t.policy.balancer.GetLocalityLbSetting()
	if s == nil {
		s = t.mesh.Locality()
	}
	if s == nil {
		s = &networking.LocalityLoadBalancerSetting{} // on by default; it takes effect with outlier detection
	}
	if s.Enabled != nil && !s.Enabled.Value {
		return nil
	}
	return s
}

// local sets the priority of each endpoint: nearer ones first. Except for the preference of the service itself, it
// requires outlier detection, which detects endpoints that fail.
func (t target) local(in []candidate) []candidate {
	s := t.localitySetting()
	if t.service.Prefer != model.PreferNone && t.policy.balancer.GetLocalityLbSetting() == nil {
		ranked(in, t.preference)
		return in
	}
	if s == nil || t.policy.outlier == nil || t.distribution() != nil {
		return in
	}
	rank := func(c candidate) uint32 { return distance(t.view.Locality, c.locality, s.Failover) }
	if len(s.FailoverPriority) > 0 {
		own := t.view.Labels()
		rank = func(c candidate) uint32 { return mismatches(s.FailoverPriority, own, t.view.Locality, c) }
	} else if t.view.Locality.Region == "" {
		return in
	}
	ranked(in, rank)
	return in
}

// preference returns the distance of an endpoint by the service's own preference. This needs no outlier detection: if a
// near endpoint is not ready, those further away receive its requests.
func (t target) preference(c candidate) uint32 {
	own, there := t.view.Locality, c.locality
	switch {
	case t.service.Prefer == model.PreferNode && c.node != "" && c.node == t.view.Node:
		return 0
	case own == (model.Locality{}) || own.Region != there.Region:
		return 3
	case own.Zone != there.Zone:
		return 2
	default:
		return 1
	}
}

// ranked sets the priority of each endpoint by its rank.
func ranked(in []candidate, rank func(candidate) uint32) {
	var ranks []uint32
	for i := range in {
		in[i].priority = rank(in[i])
		ranks = append(ranks, in[i].priority)
	}
	slices.Sort(ranks)
	ranks = slices.Compact(ranks) // Envoy requires priorities without gaps
	for i := range in {
		p, _ := slices.BinarySearch(ranks, in[i].priority)
		in[i].priority = uint32(p)
	}
}

// distance is 0 in the same sub-zone, 1 in the same zone, 2 in the same region, and 3 elsewhere. If the settings name a
// region for failover from the own region, all others but that one have distance 4.
func distance(own, other model.Locality, failover []*networking.LocalityLoadBalancerSetting_Failover) uint32 {
	switch {
	case own.Region != other.Region:
		for _, f := range failover {
			if f.From == own.Region {
				if f.To == other.Region {
					return 3
				}
				return 4
			}
		}
		return 3
	case own.Zone != other.Zone:
		return 2
	case own.SubZone != other.SubZone:
		return 1
	default:
		return 0
	}
}

// mismatches returns how many labels of the list remain from the first one that does not match.
func mismatches(priority []string, own map[string]string, where model.Locality, c candidate) uint32 {
	for i, entry := range priority {
		key, want, given := strings.Cut(entry, "=")
		if !given {
			want = labelOr(own, key, where)
		}
		if labelOr(c.labels, key, c.locality) != want {
			return uint32(len(priority) - i)
		}
	}
	return 0
}

func labelOr(labels map[string]string, key string, l model.Locality) string {
	if v, ok := labels[key]; ok {
		return v
	}
	switch key {
	case regionLabel:
		return l.Region
	case zoneLabel:
		return l.Zone
	case subZoneLabel:
		return l.SubZone
	}
	return ""
}

// distribution returns the configured shares for traffic from the proxy's locality, or nil if there are none.
func (t target) distribution() map[string]uint32 {
	for _, d := range t.localitySetting().GetDistribute() {
		if inLocality(d.From, t.view.Locality) {
			return d.To
		}
	}
	return nil
}

func (t target) localityWeighted() bool { return t.distribution() != nil }

// inLocality matches "region/zone/*" patterns; "region" matches everything in the region.
func inLocality(pattern string, l model.Locality) bool {
	parts := []string{l.Region, l.Zone, l.SubZone}
	for i, p := range strings.SplitN(pattern, "/", 3) {
		if p == "*" {
			return true
		}
		if p != parts[i] {
			return false
		}
	}
	return true
}

// distribute weights localities by the configured shares. Localities without a share receive no traffic and are left
// out.
func (t target) distribute(a *endpointv3.ClusterLoadAssignment) {
	shares := t.distribution()
	if shares == nil {
		return
	}
	weights := map[*endpointv3.LocalityLbEndpoints]uint32{}
	patterns := make([]string, 0, len(shares))
	for p := range shares {
		patterns = append(patterns, p)
	}
	slices.Sort(patterns)
	sort.SliceStable(patterns, func(i, j int) bool { return len(patterns[i]) > len(patterns[j]) })
	for _, p := range patterns { // narrowest first
		var matched []*endpointv3.LocalityLbEndpoints
		var total uint64
		for _, group := range a.Endpoints {
			l := group.GetLocality()
			if _, taken := weights[group]; !taken &&
				inLocality(p, model.Locality{Region: l.GetRegion(), Zone: l.GetZone(), SubZone: l.GetSubZone()}) {
				matched = append(matched, group)
				total += sum(group)
			}
		}
		for _, group := range matched {
			// Shares are percentages. A factor of 100 keeps them precise when several localities divide one share.
			share := uint64(shares[p]) * 100 * sum(group) / max(total, 1)
			weights[group] = max(uint32(share), min(shares[p], 1))
		}
	}
	a.Endpoints = slices.DeleteFunc(a.Endpoints,
		func(g *endpointv3.LocalityLbEndpoints) bool { return weights[g] == 0 })
	for _, group := range a.Endpoints {
		group.LoadBalancingWeight = wrapperspb.UInt32(weights[group])
	}
}

func sum(group *endpointv3.LocalityLbEndpoints) uint64 {
	var n uint64
	for _, e := range group.LbEndpoints {
		if e.HealthStatus != corev3.HealthStatus_UNKNOWN {
			continue // it receives no share
		}
		n += uint64(max(e.GetLoadBalancingWeight().GetValue(), 1))
	}
	return n
}

// networkOf returns the network of an endpoint: its own setting, else by the address ranges in MeshNetworks. If several
// ranges contain its address, the widest one is used, as in Istio, then the network whose name sorts first.
func networkOf(e model.Endpoint, mesh model.Settings) string {
	if e.Network != "" || len(mesh.Networks.GetNetworks()) == 0 {
		return e.Network
	}
	ip, err := netip.ParseAddr(e.Address)
	if err != nil {
		return ""
	}
	found, bits := "", -1
	for name, network := range mesh.Networks.GetNetworks() {
		for _, r := range network.GetEndpoints() {
			prefix, ok := prefixOf(r.GetFromCidr())
			if ok && prefix.Contains(ip) &&
				(bits < 0 || cmp.Or(cmp.Compare(prefix.Bits(), bits), cmp.Compare(name, found)) < 0) {
				found, bits = name, prefix.Bits()
			}
		}
	}
	return found
}

// prefixOf parses a CIDR range. A single address is a range of one address.
func prefixOf(s string) (netip.Prefix, bool) {
	if ip, err := netip.ParseAddr(s); err == nil && ip.Zone() == "" {
		return netip.PrefixFrom(ip, ip.BitLen()), true
	}
	prefix, err := netip.ParsePrefix(s)
	return prefix.Masked(), err == nil
}

// gatewaysOf returns the addresses of a network's gateways.
func gatewaysOf(network string, mesh model.Settings) []netip.AddrPort {
	var out []netip.AddrPort
	for _, g := range mesh.Networks.GetNetworks()[network].GetGateways() {
		if ip, err := netip.ParseAddr(g.GetAddress()); err == nil && g.Port > 0 && g.Port <= 65535 {
			out = append(out, netip.AddrPortFrom(ip, uint16(g.Port)))
		}
	}
	return out
}

// scaleOf returns the factor of all weights, chosen so that the weight of each network can be divided among its
// gateways.
func scaleOf(mesh model.Settings) uint32 {
	scale := 1
	for name := range mesh.Networks.GetNetworks() {
		if n := len(gatewaysOf(name, mesh)); n > 0 && scale*n <= maxScale {
			scale = lcm(scale, n)
		}
	}
	return uint32(scale)
}

// maxScale limits the factor so that the sum of weights stays below Envoy's limit.
const maxScale = 1 << 10

func lcm(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}
