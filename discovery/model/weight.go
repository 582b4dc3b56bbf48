package model

//lint:file-ignore SA1019 what Istio deprecates is read all the same: files still have it

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	networking "istio.io/api/networking/v1alpha3"
)

// nameBytes is what a name in certificates costs Envoy, in bytes of configuration: it is a matcher, for names of DNS and for URIs.
const nameBytes = 100

// weighed is an object whose own weight is remembered from generation to generation.
type weighed[T comparable] struct{ spec T }

func (w weighed[T]) Same(o weighed[T]) bool { return w == o }

// weightOfRule returns what the routes of a VirtualService cost at one port of one host.
func weightOfRule(in weighed[*networking.VirtualService]) (out Bounds) {
	for _, r := range in.spec.Http {
		out = out.with(weightOfRoute(r, r.Match))
	}
	for _, r := range in.spec.Tls {
		out = out.with(weightOfRoute(r, r.Match))
	}
	for _, r := range in.spec.Tcp {
		out = out.with(weightOfRoute(r, r.Match))
	}
	return out
}

// weightOfRoute returns what a route costs, of which Envoy has one for each match.
func weightOfRoute[M proto.Message](route proto.Message, matches []M) Bounds {
	n, size, own := max(1, len(matches)), 0, 0
	for _, match := range matches {
		size += protowire.SizeTag(1) + protowire.SizeBytes(proto.Size(match))
		own += programs(match.ProtoReflect())
	}
	return Bounds{routes: n, bytes: n*(proto.Size(route)-size) + size, instructions: n*(programs(route.ProtoReflect())-own) + own}
}

// programs returns how many instructions the regular expressions of a message have.
func programs(m protoreflect.Message) (n int) {
	switch v := m.Interface().(type) {
	case *networking.StringMatch:
		return RE2Size(v.GetRegex())
	case *networking.RegexRewrite:
		return RE2Size(v.Match)
	}
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.IsMap() && field.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				n += programs(v.Message())
				return true
			})
		case field.IsMap() || field.Message() == nil:
		case field.IsList():
			for i := range v.List().Len() {
				n += programs(v.List().Get(i).Message())
			}
		default:
			n += programs(v.Message())
		}
		return true
	})
	return n
}

// policyBytes is how large a DestinationRule makes each cluster of a service, and how large the subsets together make those of a port.
type policyBytes struct{ each, subsets int }

func weightOfPolicy(in weighed[*networking.DestinationRule]) policyBytes {
	out := policyBytes{each: bytesOf(in.spec.TrafficPolicy)}
	for _, subset := range in.spec.Subsets {
		out.subsets += proto.Size(subset) + bytesOf(subset.TrafficPolicy)
	}
	return out
}

func bytesOf(p *networking.TrafficPolicy) int {
	names := len(p.GetTls().GetSubjectAltNames())
	for _, level := range p.GetPortLevelSettings() {
		names += len(level.GetTls().GetSubjectAltNames())
	}
	return proto.Size(p) + names*nameBytes
}

// settle returns the load balancer and TLS settings of a policy for a port, over those of a wider policy.
func settle(p *networking.TrafficPolicy, port uint32, balancer *networking.LoadBalancerSettings, tls *networking.ClientTLSSettings) (*networking.LoadBalancerSettings, *networking.ClientTLSSettings) {
	for _, level := range p.GetPortLevelSettings() {
		if level.GetPort().GetNumber() == port {
			return level.LoadBalancer, level.Tls
		}
	}
	return cmp.Or(p.GetLoadBalancer(), balancer), cmp.Or(p.GetTls(), tls)
}

// readsRoots reports whether a cluster with these settings has roots of a file to itself. Envoy shares those of a secret.
func readsRoots(tls *networking.ClientTLSSettings) bool {
	return (tls.GetMode() == networking.ClientTLSSettings_SIMPLE || tls.GetMode() == networking.ClientTLSSettings_MUTUAL) &&
		tls.CredentialName == "" && !tls.GetInsecureSkipVerify().GetValue()
}

// placesOfRing returns how many places the ring of a cluster has; a table of maglev is smaller.
func placesOfRing(b *networking.LoadBalancerSettings, endpoints []Endpoint) int {
	hash := b.GetConsistentHash()
	if hash == nil || len(endpoints) == 0 {
		return 0
	}
	const ring, largest, table, smaller = 1024, 65536, 65537, 32 // as xds has them
	if maglev := hash.GetMaglev(); maglev != nil {
		return int(cmp.Or(maglev.TableSize, table) / smaller)
	}
	if slices.ContainsFunc(endpoints, func(e Endpoint) bool { return max(e.Weight, 1) != max(endpoints[0].Weight, 1) }) {
		return largest
	}
	return max(int(cmp.Or(hash.GetRingHash().GetMinimumRingSize(), hash.GetMinimumRingSize(), ring)), len(endpoints))
}
