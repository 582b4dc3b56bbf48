package model

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sort"
	"strings"
)

// Notes about the connected proxies themselves. Their object is a Proxy, by its namespace and name.

// maxProxies is how many proxies of a namespace are named for one reason. The others are counted.
const maxProxies = 10

// finding is one note about one proxy.
type finding struct {
	code          Code
	path, message string
}

// verdict is what was found about one proxy.
type verdict struct {
	isNew    bool // the proxy was, when it was judged
	findings []finding
}

// aboutProxies adds notes about connected proxies. known are the verdicts of proxies about the same mesh: only the others
// are examined. It returns all verdicts.
func (j *judge) aboutProxies(known map[int64]verdict) map[int64]verdict {
	all := make(map[int64]verdict, len(j.connected))
	found := map[Code]map[string][]proxyFinding{}
	for _, w := range j.connected {
		v, was := known[w.Stream]
		if !was || w.Stream == 0 || v.isNew != w.New {
			v = verdict{w.New, j.examine(w)}
			j.examined++
		}
		all[w.Stream] = v
		for _, f := range slices.Concat(v.findings, withheldFrom(w), unbound(w)) {
			if found[f.code] == nil {
				found[f.code] = map[string][]proxyFinding{}
			}
			found[f.code][w.Namespace] = append(found[f.code][w.Namespace], proxyFinding{w.Name, f})
		}
	}
	for _, code := range slices.Sorted(maps.Keys(found)) {
		for namespace, list := range found[code] {
			j.tell(namespace, list)
		}
	}
	return all
}

// proxyFinding is a finding about a proxy, by its name.
type proxyFinding struct {
	proxy string
	finding
}

// tell adds the findings of one code about the first proxies of a namespace, by name, and counts the others in a note about
// the namespace.
func (j *judge) tell(namespace string, list []proxyFinding) {
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i], list[j]
		return cmp.Or(cmp.Compare(a.proxy, b.proxy), cmp.Compare(a.path, b.path), cmp.Compare(a.message, b.message)) < 0
	})
	list = slices.Compact(list) // two streams of one proxy
	told, more := map[string]bool{}, map[string]bool{}
	for _, n := range list {
		if !told[n.proxy] && len(told) == maxProxies {
			more[n.proxy] = true
			continue
		}
		told[n.proxy] = true
		j.note(n.code, Meta{Kind: "Proxy", Namespace: namespace, Name: n.proxy}, n.path, "%s", n.message)
	}
	if len(more) > 0 {
		j.note(list[0].code, Meta{Kind: "Namespace", Name: namespace}, "", "%d further connected proxies have such a note", len(more))
	}
}

// withheldFrom returns the secrets that a proxy does not get. They are looked up each time, since they change.
func withheldFrom(w Proxy) (out []finding) {
	for _, name := range slices.Sorted(maps.Keys(w.Withheld)) {
		out = append(out, finding{
			WithheldSecret, "secret " + name, "is requested by this connected proxy, which does not get it: " + w.Withheld[name],
		})
	}
	return out
}

// examine returns what is wrong with a proxy: its node alone, and its node in the mesh.
func (j *judge) examine(w Proxy) (out []finding) {
	add := func(code Code, message string) {
		if message != "" {
			out = append(out, finding{code: code, message: message})
		}
	}
	add(WrongNamespace, j.otherNamespace(w))
	if !w.Gateway {
		add(WrongDomain, j.domain.Fault(w.Domain))
	}
	add(OldEnvoy, oldEnvoy(w.Version))
	add(OldAgent, oldAgent(w.Agent.Version, j.mesh.settings.Release))
	add(NoRedirect, bypassed(w))
	add(DNSCapture, w.DNS.fault(w, j.mesh.settings.Config.GetDefaultConfig().GetProxyMetadata()))
	if !w.New && j.isStranger(w) {
		var addresses []string
		for _, ip := range w.Addresses {
			addresses = append(addresses, ip.String())
		}
		add(NoWorkload, fmt.Sprintf("no workload or endpoint has the address of this connected sidecar, %s: no requests are sent to it, and its "+
			"inbound ports have no configuration; want the address in a WorkloadEntry or ServiceEntry of namespace %s, or the Pod's own address in --ip",
			strings.Join(addresses[:min(len(addresses), maxHosts)], ", "), w.Namespace))
	}
	return out
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
