package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// conflicts adds a note for each object that is not used, or not fully used, because of another object, and names that
// other object, the winner: usually the older one, then the one whose namespace and name sort first. For
// VirtualServices see before, for registries see union.go. It returns those notes that depend on objects only.
func (j *judge) conflicts() []Note {
	j.objectsInTwoPlaces()
	from := len(j.notes)
	if j.since.all || j.since.objects {
		j.rules()
		j.policies()
		j.entries()
	} else {
		j.notes = append(j.notes, j.since.last.clashes...)
	}
	clashes := slices.Clone(j.notes[from:])
	j.registries()
	j.guests()
	j.suffixes()
	j.sidecars()
	j.overlaps()
	j.servers()
	j.neighbours()
	j.proxyConfigs()
	return clashes
}

const notUsed = "which is older or comes first: this one is not used"

// rules finds hosts for the mesh gateway that two VirtualServices claim, if some namespace sees both.
func (j *judge) rules() {
	owners := map[string][]*Config[*networking.VirtualService]{}
	for _, v := range j.mesh.virtualServices {
		if !Names(v.Spec.Gateways, MeshGateway) {
			continue
		}
		for i, host := range v.Spec.Hosts {
			winner := slices.IndexFunc(owners[host],
				func(o *Config[*networking.VirtualService]) bool { return j.mesh.meet(o, v) && !j.mesh.before(v, o) })
			if winner >= 0 {
				j.conflict(v.Meta, owners[host][winner].Meta, index("spec.hosts", i), "%s is claimed by %s, %s for it", host,
					name(owners[host][winner].Meta), notUsed)
				continue
			}
			owners[host] = append(owners[host], v)
		}
	}
}

// meet reports whether some namespace sees both rules.
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

// policies finds subsets and policies that an older DestinationRule for the same host already has.
func (j *judge) policies() {
	for _, rules := range j.mesh.destinationRules {
		for host, all := range rules.values {
			for _, r := range all[1:] {
				first := all[0]
				if r.Spec.WorkloadSelector != nil || first.Spec.WorkloadSelector != nil {
					continue
				}
				if r.Spec.TrafficPolicy != nil && first.Spec.TrafficPolicy != nil {
					j.conflict(r.Meta, first.Meta, "spec.trafficPolicy", "%s has one from %s, %s", host, name(first.Meta), notUsed)
				}
				for i, subset := range r.Spec.Subsets {
					if hasSubset(first, subset.GetName()) {
						j.conflict(r.Meta, first.Meta, index("spec.subsets", i), "%s has a subset %s from %s, %s", host,
							subset.GetName(), name(first.Meta), notUsed)
					}
				}
			}
		}
	}
}

// sidecars finds Sidecars of one namespace that select the same workloads.
func (j *judge) sidecars() {
	owners := map[string]Meta{}
	for _, s := range j.mesh.sidecars {
		key := s.Namespace + " " + selectorKey(s.Spec.GetWorkloadSelector().GetLabels())
		if winner, taken := owners[key]; taken {
			j.conflict(s.Meta, winner, "spec", "the same workloads follow %s, %s", name(winner), notUsed)
		} else {
			owners[key] = s.Meta
		}
	}
}

// servers finds Gateway servers of the same workloads that use the same port and cannot share it.
func (j *judge) servers() {
	type owner struct {
		Meta
		plain bool
		bytes bool // neither HTTP nor TLS: no name tells its connections from others
	}
	ports, hosts := map[string]owner{}, map[string]Meta{}
	for _, g := range j.byRightToPorts() {
		for i, s := range g.Spec.Servers {
			protocol, _ := ParseProtocol(s.GetPort().GetProtocol())
			at := fmt.Sprint(selectorKey(g.Spec.Selector), " ", cmp.Or(s.Bind, "0.0.0.0"), " ", s.GetPort().GetNumber())
			first, taken := ports[at]
			if !taken {
				first = owner{g.Meta, protocol.IsHTTP(), !protocol.IsHTTP() && !protocol.IsTLS() && s.Tls == nil}
				ports[at] = first
			}
			switch {
			case first.plain && !protocol.IsHTTP():
				j.conflict(g.Meta, first.Meta, index("spec.servers", i), "the port takes plain HTTP for %s, %s", name(first.Meta),
					notUsed)
			case !first.plain && protocol.IsHTTP():
				j.conflict(g.Meta, first.Meta, index("spec.servers", i), "the port takes no plain HTTP because of %s, %s",
					name(first.Meta), notUsed)
			case taken && first.bytes && !protocol.IsTLS() && s.Tls == nil && !same(g.Meta, first.Meta):
				j.conflict(g.Meta, first.Meta, index("spec.servers", i), "the port takes every connection for the routes of %s, %s where that has routes",
					name(first.Meta), notUsed)
			case protocol == HTTPS && s.GetTls().GetMode() != networking.ServerTLSSettings_PASSTHROUGH:
				for k, host := range ServerHosts(s) {
					if winner, taken := hosts[at+" "+host]; taken {
						j.conflict(g.Meta, winner, index(index("spec.servers", i)+".hosts", k), "%s is served by %s, %s for it",
							host, name(winner), notUsed)
					} else {
						hosts[at+" "+host] = g.Meta
					}
				}
			}
		}
	}
}

// selectorKey returns the same string for equal selectors.
func selectorKey(labels map[string]string) string {
	text, _ := json.Marshal(labels) // a map of strings always encodes, with sorted keys
	return string(text)
}
