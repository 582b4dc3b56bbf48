package model

import "strings"

// Others stands for all namespaces that the mesh does not distinguish. It is not a valid name of a namespace.
const Others = "(others)"

// namespaces holds the namespaces that the mesh distinguishes from others, and the DNS domains in which hosts have
// short names.
type namespaces struct {
	special  map[string]bool
	gateways map[string]bool // that have a Gateway, which goes first at their gateway workloads, or a policy
	domains  map[string]bool // "NAMESPACE.svc.SUFFIX" of hosts; for any other host, the part after its first label
	suffixes map[string]bool // "SUFFIX" of the domains
}

// NamespaceAs returns namespace if the configuration of its proxies may differ from that of proxies in other
// namespaces: if it has services, rules, policies or Sidecars, if something is exported to it by name, or if a rule
// matches requests from it. Otherwise it returns Others.
func (m *Mesh) NamespaceAs(namespace string) string {
	if m.namespaces.special[namespace] {
		return namespace
	}
	return Others
}

// GatewayNamespaceAs does the same for the namespace of a gateway workload, for which its own Gateways count too.
func (m *Mesh) GatewayNamespaceAs(namespace string) string {
	if m.namespaces.gateways[namespace] {
		return namespace
	}
	return m.NamespaceAs(namespace)
}

// DomainAs returns the part of a proxy's DNS domain "NAMESPACE.svc.SUFFIX" on which the short names of hosts depend.
// Others replaces a namespace without hosts. A domain such as "service.consul" is returned if a host is directly below
// it. It returns "" if no host has a short name in the domain.
func (m *Mesh) DomainAs(domain string) string {
	_, suffix, ok := strings.Cut(domain, svc)
	switch {
	case m.namespaces.domains[domain]:
		return domain
	case ok && m.namespaces.suffixes[suffix]:
		return Others + svc + suffix
	default:
		return ""
	}
}

const svc = ".svc."

func (m *Mesh) indexNamespaces() {
	n := namespaces{special: map[string]bool{}, gateways: map[string]bool{}, domains: map[string]bool{}, suffixes: map[string]bool{}}
	of := func(meta string, exportTo []string) {
		n.special[meta] = true
		for _, to := range exportTo {
			n.special[to] = true
		}
	}
	for _, s := range m.services {
		of(s.Namespace, s.ExportTo)
		n.host(s.Host)
	}
	for _, v := range m.virtualServices {
		of(v.Namespace, v.Spec.ExportTo)
		for _, host := range v.Spec.Hosts {
			n.host(host)
		}
		for _, from := range sourceNamespaces(v.Spec) {
			n.special[from] = true
		}
	}
	for namespace, rules := range m.destinationRules {
		n.special[namespace] = true
		for _, all := range rules.values {
			for _, r := range all {
				of(namespace, r.Spec.ExportTo)
			}
		}
	}
	for _, g := range m.gateways {
		n.gateways[g.Namespace] = true
	}
	for namespace := range m.policies {
		n.gateways[namespace] = true
	}
	for namespace := range m.questions {
		n.gateways[namespace] = true
	}
	for _, s := range m.sidecars {
		n.special[s.Namespace] = true
	}
	for _, list := range [][]string{
		m.settings.Config.GetDefaultServiceExportTo(), m.settings.Config.GetDefaultVirtualServiceExportTo(),
		m.settings.Config.GetDefaultDestinationRuleExportTo(),
	} {
		for _, to := range list {
			n.special[to] = true
		}
	}
	m.namespaces = n
}

// host records the domains in which a host "NAME.NAMESPACE.svc.SUFFIX", or "NAME.DOMAIN" of another registry, has short
// names.
func (n namespaces) host(host string) {
	_, rest, _ := strings.Cut(host, ".")
	namespace, suffix, ok := strings.Cut(rest, svc)
	if !ok && strings.Contains(rest, ".") && !IsWildcard(host) { // not below a domain such as "com"
		n.domains[rest] = true
	}
	if ok && !strings.Contains(namespace, ".") && !IsWildcard(host) {
		n.domains[rest], n.suffixes[suffix] = true, true
	}
}
