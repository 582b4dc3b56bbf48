package model

import "strings"

// Others stands for every namespace that nothing in the mesh tells from another. No namespace has this name.
const Others = "(others)"

// namespaces are those that something in the mesh tells from others, and the domains that hosts have short names in.
type namespaces struct {
	special  map[string]bool
	domains  map[string]bool // "NAMESPACE.svc.SUFFIX" of hosts, or what follows the first label of any other
	suffixes map[string]bool // "SUFFIX" of those
}

// NamespaceAs returns namespace where proxies of it may see another mesh than those of others: where it has services, rules,
// policies or Sidecars, where something is exported to it by name, or a rule matches requests from it; else Others.
func (m *Mesh) NamespaceAs(namespace string) string {
	if m.namespaces.special[namespace] {
		return namespace
	}
	return Others
}

// DomainAs returns the part of a proxy's DNS domain "NAMESPACE.svc.SUFFIX" that makes short names of some host, with Others in
// the place of a namespace without hosts; a domain such as "service.consul" where a host is right below it; "" for none.
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
	n := namespaces{special: map[string]bool{}, domains: map[string]bool{}, suffixes: map[string]bool{}}
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

// host notes the domains that a host "NAME.NAMESPACE.svc.SUFFIX" has short names in, or one "NAME.DOMAIN" of another registry.
func (n namespaces) host(host string) {
	_, rest, _ := strings.Cut(host, ".")
	namespace, suffix, ok := strings.Cut(rest, svc)
	if !ok && strings.Contains(rest, ".") && !IsWildcard(host) { // below a domain such as "com" nothing is short
		n.domains[rest] = true
	}
	if ok && !strings.Contains(namespace, ".") && !IsWildcard(host) {
		n.domains[rest], n.suffixes[suffix] = true, true
	}
}
