package model

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// Notes about what several objects do to the same workloads: labels of all workloads that are known decide.

// labelled are the labels of workloads of a namespace.
type labelled struct {
	namespace string
	labels    map[string]string
}

// maxSelected is how many different sets of labels a selector is compared with.
const maxSelected = 1000

// workloads returns the different labels of known workloads that a selector selects, in a namespace, or in all if it is
// empty. An empty selector returns none.
func (s *selected) workloads(namespace string, selector map[string]string) (out []labelled) {
	if s.sets == nil {
		s.sets = map[[2]string][]labelled{}
		seen := map[string]bool{}
		s.each(func(namespace string, labels map[string]string) {
			key := namespace + " " + selectorKey(labels)
			if len(labels) == 0 || seen[key] {
				return
			}
			seen[key] = true
			for name, value := range labels {
				pair := [2]string{name, value}
				s.sets[pair] = append(s.sets[pair], labelled{namespace, labels})
			}
		})
	}
	var least []labelled
	for i, name := range slices.Sorted(maps.Keys(selector)) {
		if all := s.sets[[2]string{name, selector[name]}]; i == 0 || len(all) < len(least) {
			least = all
		}
	}
	for _, w := range least {
		if (namespace == "" || w.namespace == namespace) && Selects(selector, w.labels) && len(out) < maxSelected {
			out = append(out, w)
		}
	}
	return out
}

// doors adds a note about each port of a Gateway that no Service before its workloads leads to, if there are such
// Services.
func (j *judge) doors(meta Meta, g *networking.Gateway) {
	led, some := map[uint32]bool{}, ""
	for _, w := range j.selected.workloads("", g.Selector) {
		for _, s := range j.mesh.selecting[w.namespace] {
			if s.Registry == "" || !Selects(s.Selector, w.labels) {
				continue
			}
			some = s.Host
			for _, p := range s.Ports {
				led[p.Number] = true
				if p.Target != 0 {
					led[p.Target] = true // dialled past the Service
				}
			}
		}
	}
	if some == "" {
		return
	}
	var ports []string
	for _, n := range slices.Sorted(maps.Keys(led)) {
		ports = append(ports, strconv.Itoa(int(n)))
	}
	for i, s := range g.Servers {
		if n := s.GetPort().GetNumber(); !led[n] {
			j.note(NoServicePort, meta, index("spec.servers", i)+".port.number", "no Service before the selected workloads, such as %s, has port %d: clients reach "+
				"it at the workloads' own addresses only; want this port in a Service, which has %s", some, n, strings.Join(ports, ", "))
		}
	}
}

// maxRivals is how many objects of one namespace or port are compared with each other.
const maxRivals = 100

// overlaps finds Sidecars with different selectors that select the same known workload: the first one counts for it.
func (j *judge) overlaps() {
	inside := map[string][]*Config[*networking.Sidecar]{}
	for _, s := range j.mesh.sidecars {
		if labels := s.Spec.GetWorkloadSelector().GetLabels(); len(labels) > 0 && len(inside[s.Namespace]) < maxRivals {
			inside[s.Namespace] = append(inside[s.Namespace], s)
		}
	}
	for namespace, all := range inside {
		for i, s := range all {
			own := s.Spec.WorkloadSelector.Labels
			for _, w := range j.selected.workloads(namespace, own) {
				first := slices.IndexFunc(all[:i], func(o *Config[*networking.Sidecar]) bool {
					return Selects(o.Spec.WorkloadSelector.Labels, w.labels)
				})
				if first < 0 || selectorKey(all[first].Spec.WorkloadSelector.Labels) == selectorKey(own) {
					continue // the latter is noted already
				}
				j.conflict(s.Meta, all[first].Meta, "spec.workloadSelector", "workloads with %s follow %s, %s for them", pairs(w.labels), name(all[first].Meta), notUsed)
				break
			}
		}
	}
}

// neighbours finds servers of Gateways with different selectors, one of which selects all that the other selects, that
// have one port and cannot share it; and servers of different Gateways that have one port and one certificate.
func (j *judge) neighbours() {
	type server struct {
		*Config[*networking.Gateway]
		plain                bool
		credential, selector string
	}
	at := map[string][]server{}
	for _, g := range j.byRightToPorts() {
		selector := selectorKey(g.Spec.Selector)
		for i, s := range g.Spec.Servers {
			protocol, _ := ParseProtocol(s.GetPort().GetProtocol())
			key := fmt.Sprint(orAny(s.Bind), " ", s.GetPort().GetNumber())
			own := server{g, protocol.IsHTTP(), "", selector}
			if protocol == HTTPS {
				own.credential = s.GetTls().GetCredentialName()
			}
			said := false
			for _, first := range at[key] {
				same := first.selector == selector
				if said || first.Config == g || !same && !Selects(first.Spec.Selector, g.Spec.Selector) && !Selects(g.Spec.Selector, first.Spec.Selector) {
					continue
				}
				switch {
				case !same && first.plain != own.plain:
					j.conflict(g.Meta, first.Meta, index("spec.servers", i), "the port takes %s for %s, %s where both select a workload",
						map[bool]string{true: "plain HTTP", false: "no plain HTTP"}[first.plain], name(first.Meta), notUsed)
					said = true
				case own.credential != "" && own.credential == first.credential:
					j.note(SharedCert, g.Meta, index("spec.servers", i)+".tls.credentialName", "%s has the same certificate at this port: a browser that has a "+
						"connection for a host of it uses it for the hosts of this Gateway too, and is answered 404; want one Gateway with all hosts, or a certificate each", name(first.Meta))
					said = true
				}
			}
			if len(at[key]) < maxRivals {
				at[key] = append(at[key], own)
			}
		}
	}
}

func orAny(bind string) string {
	if bind == "" {
		return "0.0.0.0"
	}
	return bind
}
