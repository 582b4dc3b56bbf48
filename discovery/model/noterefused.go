package model

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// Refusal is a host whose routes, or one of whose clusters, an Envoy rejected.
type Refusal struct {
	Host    string
	Routes  bool
	Instead string // what the proxy has in its place
	Text    string // error text of Envoy
}

// refused adds a note to the objects from which rejected routes or clusters were made: the VirtualServices of the host,
// or its DestinationRules; if there are none, the ServiceEntry.
func (j *judge) refused() {
	type part struct {
		host   string
		routes bool
	}
	seen := map[part]bool{}
	for _, w := range j.connected {
		for _, r := range w.Refused {
			if p := (part{r.Host, r.Routes}); seen[p] {
				continue
			} else {
				seen[p] = true
			}
			what := "a cluster"
			if r.Routes {
				what = "the routes"
			}
			for _, meta := range j.sources(r) {
				j.note(RefusedByProxy, meta, "", "Envoy refuses %s of %s that this makes; a proxy of namespace %s has in the place of it %s. Envoy says: %s",
					what, r.Host, w.Namespace, r.Instead, strings.TrimSpace(r.Text))
			}
		}
	}
}

// sources returns the objects from which a rejected part was most likely made.
func (j *judge) sources(r Refusal) (out []Meta) {
	if r.Routes {
		for _, v := range j.mesh.virtualServices {
			if slices.ContainsFunc(v.Spec.Hosts, func(host string) bool { return HostMatches(host, r.Host) }) {
				out = append(out, v.Meta)
			}
		}
	} else {
		for _, rules := range j.mesh.destinationRules {
			for _, all := range rules.matching(r.Host) {
				for _, d := range all {
					out = append(out, d.Meta)
				}
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, o := range j.mesh.used() {
		if s, ok := o.Spec.(*networking.ServiceEntry); ok && slices.ContainsFunc(s.Hosts, func(host string) bool { return strings.EqualFold(host, r.Host) }) {
			out = append(out, o.Meta)
		}
	}
	return out
}
