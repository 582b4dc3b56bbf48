package model

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// keptAtHome adds a note to each object of which something is for proxies of its own namespace only.
func (j *judge) keptAtHome() {
	m := j.mesh
	if len(m.given.kept) == 0 {
		return
	}
	told := func(meta Meta, path, what string, over cost) {
		j.note(TooMuch, meta, path, "is %sfor proxies of namespace %s only: all that this namespace gives to proxies of others is more than %d %s, of which older objects go first; "+
			"want exportTo of \".\" for what only this namespace needs, or objects of the root namespace", what, meta.Namespace, m.settings.bounds()[over], over)
	}
	added := m.added()
	for _, o := range m.used() {
		if over, kept := m.given.kept[keptKey{o.Kind, o.Namespace, o.Name}]; kept {
			told(o.Meta, "spec", "", over)
		}
		var path, what string
		var of []string
		switch spec := o.Spec.(type) {
		case *networking.ServiceEntry:
			path, what, of = "spec.hosts", "of its hosts", make([]string, len(spec.Hosts))
			for i, host := range spec.Hosts {
				of[i] = m.settings.Domain.Qualify(host, o.Namespace)
			}
		case *networking.DestinationRule:
			path, what, of = "spec", "services to which it applies", added[keptKey{o.Kind, o.Namespace, o.Name}]
		case *networking.WorkloadEntry:
			path, what, of = "spec", "services that select it", added[keptKey{o.Kind, o.Namespace, o.Name}]
		default:
			continue
		}
		first, n, why := "", 0, cost(0)
		for _, host := range of {
			if over, kept := m.given.kept[keptKey{"", o.Namespace, host}]; kept {
				if n++; first == "" {
					first, why = host, over
				}
			}
		}
		if n > 0 {
			told(o.Meta, path, fmt.Sprintf("with %d %s, such as %s, ", n, what, first), why)
		}
	}
}

// added returns the hosts of services of registries that are for proxies of their own namespace only, by the objects that cause it.
func (m *Mesh) added() map[keptKey][]string {
	out := map[keptKey][]string{}
	for key := range m.given.kept {
		if key.kind != "" {
			continue
		}
		for _, s := range m.claims(key.name) {
			if s.Namespace != key.namespace || m.declares(s) {
				continue
			}
			for _, r := range m.lentRules(s) {
				at := keptKey{r.Kind, r.Namespace, r.Name}
				out[at] = append(out[at], s.Host)
			}
			if m.given.entered[s.key()] == 0 {
				continue
			}
			for o, w := range m.entries {
				if at := (keptKey{o.Kind, o.Namespace, o.Name}); w.Namespace == s.Namespace && s.takes(w) {
					out[at] = append(out[at], s.Host)
				}
			}
		}
	}
	for _, hosts := range out {
		slices.Sort(hosts)
	}
	return out
}
