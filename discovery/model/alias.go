package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A service may be only another name of a host: Kubernetes' ExternalName. Where the host is that of a service which the
// proxy sees, the name belongs to that service, as in Istio: requests for the name follow what is configured for the
// service, and the name has no cluster of its own. Elsewhere DNS resolves it.
//
//	a ──externalName──▶ b ──externalName──▶ reviews        reviews.Aliases = a, b      a.AliasOf = b.AliasOf = reviews
//	c ──externalName──▶ example.com                        no service: c has the one endpoint example.com, by DNS
//	d ──externalName──▶ d                                  a circle: as c

// maxNames is how many names may lead to one another: resolvers of DNS do not follow more either.
const maxNames = 16

// indexAliases sets Aliases and AliasOf of the services that are concerned.
func (m *Mesh) indexAliases() {
	names := map[string]string{}
	for _, s := range m.services {
		if s.ExternalName != "" {
			names[s.Host] = s.ExternalName
		}
	}
	if len(names) == 0 {
		return
	}
	aliases, of := map[string][]string{}, map[string]string{}
	for host := range names {
		if target := m.follow(names, host); target != "" {
			of[host] = target
			aliases[target] = append(aliases[target], host)
		}
	}
	for i, s := range m.services {
		in := aliasInputs{service: s}
		if s.ExternalName != "" {
			in.of = of[s.Host]
		} else if all := aliases[s.Host]; len(all) > 0 {
			slices.Sort(all)
			in.aliases = strings.Join(all, " ")
		}
		if in.of != "" || in.aliases != "" {
			m.services[i] = Recall(m.memory, fmt.Sprintf("aliases of %s/%s", s.Namespace, s.Host), in, aliasInputs.apply)
		}
	}
}

// follow returns the host of the service to which a chain of names leads; "" for none, and for a circle.
func (m *Mesh) follow(names map[string]string, host string) string {
	for range maxNames {
		next, more := names[host]
		if !more {
			break
		}
		host = next
	}
	if s := m.Service(host); s == nil || names[host] != "" {
		return ""
	}
	return host
}

// circular reports whether the names that a service leads to never end.
func (m *Mesh) circular(s *Service) bool {
	var seen []string
	for s != nil && s.ExternalName != "" && s.AliasOf == "" && len(seen) <= maxNames {
		if slices.Contains(seen, s.Host) {
			return true
		}
		seen = append(seen, s.Host)
		s = m.Service(s.ExternalName)
	}
	return false
}

type aliasInputs struct {
	service     *Service
	of, aliases string
}

func (in aliasInputs) Same(o aliasInputs) bool { return in == o }

func (in aliasInputs) apply() *Service {
	out := *in.service
	out.AliasOf, out.Aliases = in.of, strings.Fields(in.aliases)
	return &out
}

// withAliasesOf returns s with the names that another version of it has in the mesh.
func (s *Service) withAliasesOf(o *Service) *Service {
	if len(o.Aliases) == 0 && o.AliasOf == "" {
		return s
	}
	out := *s
	out.AliasOf, out.Aliases = o.AliasOf, o.Aliases
	return &out
}

// joinAliases removes from the scope the names of services that every egress with the name has as well, or to which only
// rules lead. Service returns the service for them.
func (s *Scope) joinAliases() {
	joined := map[string]bool{}
	for _, service := range s.services {
		if of := service.AliasOf; of != "" && s.byHost[of] != nil && s.joins(service.Host, of) {
			joined[service.Host] = true
		}
	}
	if len(joined) == 0 {
		return
	}
	gone := func(service *Service) bool { return joined[service.Host] }
	for i, e := range s.egress {
		if slices.ContainsFunc(e.Services, gone) {
			s.egress[i].Services = slices.DeleteFunc(slices.Clone(e.Services), gone)
		}
	}
	for _, service := range s.services {
		if gone(service) {
			s.byHost[service.Host] = s.byHost[service.AliasOf]
		}
	}
	s.services = slices.DeleteFunc(slices.Clone(s.services), gone)
}

func (s *Scope) joins(alias, of string) bool {
	has := func(e Egress, host string) bool {
		_, found := slices.BinarySearchFunc(e.Services, host, func(s *Service, host string) int { return cmp.Compare(s.Host, host) })
		return found
	}
	return !slices.ContainsFunc(s.egress, func(e Egress) bool { return has(e, alias) && !has(e, of) })
}
