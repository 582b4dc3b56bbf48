package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// judgeConflicts tells each object that wants what another has who that is: the older, then the one whose namespace and
// name come first.
func (m *Mesh) judgeConflicts() {
	m.judgeRules()
	m.judgePolicies()
	m.judgeEntries()
	m.judgeSidecars()
	m.judgeServers()
}

const notUsed = "which is older or comes first: this one is not used"

// judgeRules looks for mesh hosts that two VirtualServices claim where both are seen.
func (m *Mesh) judgeRules() {
	owners := map[string][]*Config[*networking.VirtualService]{}
	for _, v := range m.virtualServices {
		if !Names(v.Spec.Gateways, MeshGateway) {
			continue
		}
		for i, host := range v.Spec.Hosts {
			winner := slices.IndexFunc(owners[host],
				func(o *Config[*networking.VirtualService]) bool { return m.meet(o, v) })
			if winner >= 0 {
				m.note(v.Meta, index("spec.hosts", i), "%s is claimed by %s, %s for it", host,
					name(owners[host][winner].Meta), notUsed)
				continue
			}
			owners[host] = append(owners[host], v)
		}
	}
}

// meet reports whether some namespace sees both.
func (m *Mesh) meet(a, b *Config[*networking.VirtualService]) bool {
	exported := func(v *Config[*networking.VirtualService]) []string {
		return orDefault(orDefault(v.Spec.ExportTo, m.settings.Config.GetDefaultVirtualServiceExportTo()),
			[]string{"*"})
	}
	from, to := exported(a), exported(b)
	if slices.Contains(to, "*") {
		from, to, a, b = to, from, b, a
	}
	if slices.Contains(from, "*") {
		return !slices.Equal(to, []string{"~"})
	}
	return slices.ContainsFunc(to, func(namespace string) bool {
		if namespace == "." {
			namespace = b.Namespace
		}
		return namespace != "~" && Visible(from, a.Namespace, namespace)
	})
}

// judgePolicies looks for subsets and policies that another rule for the host has already.
func (m *Mesh) judgePolicies() {
	for _, rules := range m.destinationRules {
		for host, all := range rules.values {
			for _, r := range all[1:] {
				first := all[0]
				if r.Spec.WorkloadSelector != nil || first.Spec.WorkloadSelector != nil {
					continue
				}
				if r.Spec.TrafficPolicy != nil && first.Spec.TrafficPolicy != nil {
					m.note(r.Meta, "spec.trafficPolicy", "%s has one from %s, %s", host, name(first.Meta), notUsed)
				}
				for i, subset := range r.Spec.Subsets {
					if hasSubset(first, subset.GetName()) {
						m.note(r.Meta, index("spec.subsets", i), "%s has a subset %s from %s, %s", host,
							subset.GetName(), name(first.Meta), notUsed)
					}
				}
			}
		}
	}
}

// judgeEntries looks for hosts that two ServiceEntry objects of a namespace declare. Of two namespaces each sees its own.
func (m *Mesh) judgeEntries() {
	owners := map[serviceKey]Meta{}
	for _, o := range m.objects {
		entry, ok := o.Spec.(*networking.ServiceEntry)
		if !ok {
			continue
		}
		for i, host := range entry.Hosts {
			key := serviceKey{strings.ToLower(host), o.Namespace}
			if winner, taken := owners[key]; taken {
				m.note(o.Meta, index("spec.hosts", i), "%s is declared by %s, %s for it", host, name(winner), notUsed)
			} else {
				owners[key] = o.Meta
			}
		}
	}
}

// judgeSidecars looks for those of a namespace that select the same workloads.
func (m *Mesh) judgeSidecars() {
	owners := map[string]Meta{}
	for _, s := range m.sidecars {
		key := s.Namespace + " " + selectorKey(s.Spec.GetWorkloadSelector().GetLabels())
		if winner, taken := owners[key]; taken {
			m.note(s.Meta, "spec", "the same workloads follow %s, %s", name(winner), notUsed)
		} else {
			owners[key] = s.Meta
		}
	}
}

// judgeServers looks for servers of Gateways for the same workloads that share a port and cannot.
func (m *Mesh) judgeServers() {
	type owner struct {
		Meta
		plain bool
	}
	ports, hosts := map[string]owner{}, map[string]Meta{}
	for _, g := range m.gateways {
		for i, s := range g.Spec.Servers {
			protocol, _ := ParseProtocol(s.GetPort().GetProtocol())
			at := fmt.Sprint(selectorKey(g.Spec.Selector), " ", cmp.Or(s.Bind, "0.0.0.0"), " ", s.GetPort().GetNumber())
			first, taken := ports[at]
			if !taken {
				first = owner{g.Meta, protocol.IsHTTP()}
				ports[at] = first
			}
			switch {
			case first.plain && !protocol.IsHTTP():
				m.note(g.Meta, index("spec.servers", i), "the port takes plain HTTP for %s, %s", name(first.Meta),
					notUsed)
			case !first.plain && protocol.IsHTTP():
				m.note(g.Meta, index("spec.servers", i), "the port takes no plain HTTP because of %s, %s",
					name(first.Meta), notUsed)
			case protocol == HTTPS && s.GetTls().GetMode() != networking.ServerTLSSettings_PASSTHROUGH:
				for j, host := range s.Hosts {
					host = strings.ToLower(host[strings.Index(host, "/")+1:]) // less the namespace
					if winner, taken := hosts[at+" "+host]; taken {
						m.note(g.Meta, index(index("spec.servers", i)+".hosts", j), "%s is served by %s, %s for it",
							host, name(winner), notUsed)
					} else {
						hosts[at+" "+host] = g.Meta
					}
				}
			}
		}
	}
}

// selectorKey is the same for equal selectors.
func selectorKey(labels map[string]string) string {
	text, _ := json.Marshal(labels) // a map of strings always encodes, its keys sorted
	return string(text)
}
