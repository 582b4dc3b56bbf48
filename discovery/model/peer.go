package model

import (
	"slices"

	security "istio.io/api/security/v1beta1"
)

// PeerMode is what a port of a workload takes from the sidecars of others: PeerAuthentication's mode.
type PeerMode uint8

const (
	PeerPermissive PeerMode = iota // mutual TLS, and anything else as it is
	PeerStrict                     // mutual TLS only
	PeerDisable                    // no mutual TLS
)

// PeerPolicy holds the PeerAuthentications that a workload follows, each nil if there is none. It is comparable: equal values
// give the same modes.
type PeerPolicy struct{ Workload, Namespace, Root *security.PeerAuthentication }

// Mode returns the mode of a port of the workload. A port without a level of its own, such as 0, has the mode of the workload.
func (p PeerPolicy) Mode(port uint32) PeerMode {
	mode, _ := p.decide(port)
	return mode
}

// decide returns the mode of a port, and the policy that says it; nil for none.
func (p PeerPolicy) decide(port uint32) (PeerMode, *security.PeerAuthentication) {
	for _, level := range []struct {
		of   *security.PeerAuthentication
		mtls *security.PeerAuthentication_MutualTLS
	}{
		{p.Workload, p.Workload.GetPortLevelMtls()[port]},
		{p.Workload, p.Workload.GetMtls()},
		{p.Namespace, p.Namespace.GetMtls()},
		{p.Root, p.Root.GetMtls()},
	} {
		switch level.mtls.GetMode() {
		case security.PeerAuthentication_MutualTLS_UNSET:
		case security.PeerAuthentication_MutualTLS_DISABLE:
			return PeerDisable, level.of
		case security.PeerAuthentication_MutualTLS_PERMISSIVE:
			return PeerPermissive, level.of
		default: // validation refuses modes that are not known
			return PeerStrict, level.of
		}
	}
	return PeerPermissive, nil
}

// Ports returns the ports that have a level of their own, ordered.
func (p PeerPolicy) Ports() []uint32 {
	out := make([]uint32, 0, len(p.Workload.GetPortLevelMtls()))
	for port := range p.Workload.GetPortLevelMtls() {
		out = append(out, port)
	}
	slices.Sort(out)
	return out
}

// Peers are the PeerAuthentications that the workloads of a namespace follow. It is immutable.
type Peers struct {
	root, namespace *security.PeerAuthentication
	selected        []*security.PeerAuthentication // with a selector, or closed with one that nobody knows, oldest first
}

// Of returns the policies that a workload follows.
func (p *Peers) Of(labels map[string]string) PeerPolicy {
	if p == nil {
		return PeerPolicy{}
	}
	out := PeerPolicy{Namespace: p.namespace, Root: p.root}
	for _, spec := range p.selected {
		if Selects(spec.Selector.GetMatchLabels(), labels) {
			out.Workload = spec
			break
		}
	}
	return out
}

// Same reports whether the policies are the same.
func (p *Peers) Same(other *Peers) bool {
	return p.root == other.root && p.namespace == other.namespace && slices.Equal(p.selected, other.selected)
}

// addPeer is called for the oldest policy first. A policy with a selector in the root namespace selects nothing, as in Istio.
func (m *Mesh) addPeer(o *Object, spec *security.PeerAuthentication) {
	in := m.peers[o.Namespace]
	if in == nil {
		in = &Peers{}
		m.peers[o.Namespace] = in
	}
	labels := len(spec.GetSelector().GetMatchLabels())
	if labels > 0 || o.ofAny() {
		in.selected = append(in.selected, spec)
	}
	if labels == 0 && in.namespace == nil {
		in.namespace = spec
	}
}

// ofAny reports whether the object is a PeerAuthentication in its closed form that may have named any workload: it is that of each,
// so that none of the namespace's goes before.
func (o *Object) ofAny() bool {
	spec, is := o.Spec.(*security.PeerAuthentication)
	return is && o.Closed && spec.Selector != nil && len(spec.Selector.MatchLabels) == 0
}

// indexPeers adds the policies of the root namespace to the others, once the settings are known. Values that are the same as in
// last keep their pointers.
func (m *Mesh) indexPeers(last *Mesh) {
	root := m.settings.RootNamespace()
	if in := m.peers[root]; in != nil {
		m.peers[root] = &Peers{root: in.namespace}
	}
	mesh := m.peers[root]
	if mesh == nil {
		mesh = &Peers{}
	}
	for namespace, in := range m.peers {
		in.root = mesh.root
		if was := last.peers[namespace]; was != nil && was.Same(in) {
			m.peers[namespace] = was
		}
	}
	if was := last.rootPeers; was != nil && was.Same(mesh) {
		mesh = was
	}
	m.rootPeers = mesh
}

// Peers returns the policies of a namespace's workloads.
func (m *Mesh) Peers(namespace string) *Peers {
	if in := m.peers[namespace]; in != nil {
		return in
	}
	return m.rootPeers
}

// disables reports whether one of the policies has the mode DISABLE.
func (p *Peers) disables() bool {
	off := func(m *security.PeerAuthentication_MutualTLS) bool {
		return m.GetMode() == security.PeerAuthentication_MutualTLS_DISABLE
	}
	return slices.ContainsFunc(append([]*security.PeerAuthentication{p.root, p.namespace}, p.selected...), func(p *security.PeerAuthentication) bool {
		for _, level := range p.GetPortLevelMtls() {
			if off(level) {
				return true
			}
		}
		return off(p.GetMtls())
	})
}

// Refusing returns the policies of a namespace's workloads, if these may refuse mutual TLS; else nil: clients need no others.
func (m *Mesh) Refusing(namespace string) *Peers {
	if p := m.Peers(namespace); p != nil && p.disables() {
		return p
	}
	return nil
}
