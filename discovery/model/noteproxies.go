package model

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Notes about the connected proxies themselves. Their object is a Proxy, by its namespace and name.

// maxProxies is how many proxies of a namespace are named for one reason. The others are counted.
const maxProxies = 10

// aboutProxies adds notes about secrets that proxies do not get, and about sidecars that belong to no workload.
func (j *judge) aboutProxies() {
	withheld, strangers := map[string][]Proxy{}, map[string][]Proxy{}
	for _, w := range j.connected {
		if len(w.Withheld) > 0 {
			withheld[w.Namespace] = append(withheld[w.Namespace], w)
		}
		if !w.New && j.isStranger(w) {
			strangers[w.Namespace] = append(strangers[w.Namespace], w)
		}
	}
	j.each(WithheldSecret, withheld, "%d further proxies likewise do not get secrets", func(w Proxy, meta Meta) {
		for _, name := range slices.Sorted(maps.Keys(w.Withheld)) {
			j.note(WithheldSecret, meta, "secret "+name, "is requested by this connected proxy, which does not get it: %s", w.Withheld[name])
		}
	})
	j.each(NoWorkload, strangers, "%d further proxies likewise have no workload", func(w Proxy, meta Meta) {
		var addresses []string
		for _, ip := range w.Addresses {
			addresses = append(addresses, ip.String())
		}
		j.note(NoWorkload, meta, "", "no workload or endpoint has the address of this connected sidecar, %s: no requests are sent to it, and its "+
			"inbound ports have no configuration; want the address in a WorkloadEntry or ServiceEntry of namespace %s, or the Pod's own address in --ip",
			strings.Join(addresses[:min(len(addresses), maxHosts)], ", "), w.Namespace)
	})
}

// each calls name for the first proxies of each namespace, by name, and counts the others in a note about the namespace.
func (j *judge) each(code Code, all map[string][]Proxy, others string, name func(Proxy, Meta)) {
	for namespace, proxies := range all {
		slices.SortFunc(proxies, func(a, b Proxy) int { return cmp.Compare(a.Name, b.Name) })
		proxies = slices.CompactFunc(proxies, func(a, b Proxy) bool { return a.Name == b.Name && maps.Equal(a.Withheld, b.Withheld) })
		for _, w := range proxies[:min(len(proxies), maxProxies)] {
			name(w, Meta{Kind: "Proxy", Namespace: namespace, Name: w.Name})
		}
		if more := len(proxies) - maxProxies; more > 0 {
			j.note(code, Meta{Kind: "Namespace", Name: namespace}, "", "%s", fmt.Sprintf(others, more))
		}
	}
}

// isStranger reports whether a sidecar should be a workload's, and no workload or endpoint has one of its addresses: a
// registry has the Pods of its namespace, or an endpoint of its namespace has labels that the proxy has too. Other
// proxies may be those of clients, which need no workload.
func (j *judge) isStranger(w Proxy) bool {
	if w.Gateway || w.Proxyless || len(w.Addresses) == 0 || len(j.mesh.ServicesAt(w.Addresses...)) > 0 {
		return false
	}
	claim := Claim{Namespace: w.Namespace, Name: w.Name, Addresses: w.Addresses}
	residents := j.mesh.residents[w.Namespace]
	if len(residents.byAddress(claim)) > 0 {
		return false
	}
	if s := j.mesh.Sidecar(w.Namespace, w.Labels); s != nil && len(s.Spec.Ingress) > 0 {
		return false // which says what its inbound ports are
	}
	if residents != nil && slices.ContainsFunc(residents.named, func(r *Workload) bool {
		return r.Registry != "" && (w.Cluster == "" || r.Cluster == "" || r.Cluster == w.Cluster)
	}) {
		return true
	}
	return j.labelled(w)
}

// labelled reports whether an endpoint at an address, of a service of the proxy's namespace, has labels, and the proxy
// has them all.
func (j *judge) labelled(w Proxy) bool {
	if len(w.Labels) == 0 {
		return false
	}
	if j.endpointLabels == nil {
		j.endpointLabels = map[string][]map[string]string{}
		seen := map[string]bool{}
		for _, s := range j.mesh.services {
			for _, e := range s.Endpoints {
				if _, err := netip.ParseAddr(e.Address); err != nil || len(e.Labels) == 0 {
					continue
				}
				if key := s.Namespace + " " + selectorKey(e.Labels); !seen[key] {
					seen[key] = true
					j.endpointLabels[s.Namespace] = append(j.endpointLabels[s.Namespace], e.Labels)
				}
			}
		}
	}
	return slices.ContainsFunc(j.endpointLabels[w.Namespace], func(labels map[string]string) bool { return Selects(labels, w.Labels) })
}
