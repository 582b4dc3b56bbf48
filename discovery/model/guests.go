package model

import (
	"cmp"
	"slices"
	"sort"
	"strings"
)

// A host that a registry gives outside of its own suffix is a guest: it is served only while no object and no Service of
// Kubernetes has
//
//	the host itself, in any namespace, or a short name that is the same: web.default of web.default.svc.cluster.local
//	a wildcard that covers it: *.bank.com covers pay.bank.com
//	a host below it, if it is a wildcard itself: requests to another port of that host would get to the guest
//
// It does not matter which of them was there first.

// shutGuest is a guest that is not served, and the declaration that has its host.
type shutGuest struct{ guest, owner *Service }

// shutGuests removes the guests whose host somebody else has from services, which are in the order of byRight.
func (m *Mesh) shutGuests(services []*Service) []*Service {
	if !slices.ContainsFunc(services, func(s *Service) bool { return s.Right == RightGuest }) {
		return services
	}
	owned := m.indexOwned(services)
	m.shut = map[string]shutGuest{}
	out := make([]*Service, 0, len(services))
	for _, s := range services {
		if s.Right == RightGuest {
			if owner := owned.owner(s.Host); owner != nil {
				m.shut[s.declaration()] = shutGuest{s, owner}
				continue
			}
		}
		out = append(out, s)
	}
	return out
}

// owned holds the hosts that are not guests', and how these may be called.
type owned struct {
	hosts    map[string]*Service // also short names; wildcards with their asterisk
	partial  bool                // there is a wildcard that ends within a label, as *bank.com
	wildcard bool                // there is any wildcard
	above    map[string]*Service // each domain above a host; nil if no guest is a wildcard
}

func (m *Mesh) indexOwned(services []*Service) owned {
	o := owned{hosts: map[string]*Service{}}
	if slices.ContainsFunc(services, func(s *Service) bool { return s.Right == RightGuest && IsWildcard(s.Host) }) {
		o.above = map[string]*Service{}
	}
	for _, s := range services {
		if s.Right == RightGuest {
			continue
		}
		o.add(s.Host, s)
		if short, ok := m.settings.Domain.cut(s.Host); ok {
			o.add(short, s)
			o.add(short+strings.TrimSuffix(svc, "."), s)
		}
		if label, _, _ := strings.Cut(s.Host, "."); (s.Right == RightSuffix || m.settings.Domain.has(s.Host)) && !IsWildcard(s.Host) {
			o.add(label, s) // as proxies of its namespace, or of the registry's domain, call it
		}
	}
	return o
}

func (o *owned) add(host string, s *Service) {
	if _, known := o.hosts[host]; known {
		return
	}
	o.hosts[host] = s
	if IsWildcard(host) {
		o.wildcard = true
		o.partial = o.partial || !strings.HasPrefix(host, "*.") && host != "*"
	}
	if o.above == nil {
		return
	}
	for domain := range domainsAbove(host) {
		if _, known := o.above[domain]; !known {
			o.above[domain] = s
		}
	}
}

// domainsAbove yields "bank.com" and "com" of "pay.bank.com".
func domainsAbove(host string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, rest, ok := strings.Cut(host, "."); ok; _, rest, ok = strings.Cut(rest, ".") {
			if !yield(rest) {
				return
			}
		}
	}
}

// owner returns the declaration that has a guest's host; nil if there is none.
func (o *owned) owner(host string) *Service {
	if s := o.hosts[host]; s != nil {
		return s
	}
	if domain, wildcard := strings.CutPrefix(host, "*."); wildcard {
		if s := cmp.Or(o.hosts[domain], o.above[domain]); s != nil {
			return s
		}
	}
	if !o.wildcard {
		return nil
	}
	if s := o.hosts["*"]; s != nil {
		return s
	}
	for i := range host {
		if (o.partial || host[i] == '.') && o.hosts["*"+host[i:]] != nil {
			return o.hosts["*"+host[i:]]
		}
	}
	return nil
}

// maxGuests is how many guests get a note each.
const maxGuests = 100

// guests adds notes about the guests that are not served.
func (j *judge) guests() {
	all := make([]shutGuest, 0, len(j.mesh.shut))
	for _, g := range j.mesh.shut {
		all = append(all, g)
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i], all[j]
		return cmp.Or(cmp.Compare(a.guest.Host, b.guest.Host), cmp.Compare(a.guest.declaration(), b.guest.declaration())) < 0
	})
	for i, g := range all {
		if i == maxGuests {
			j.note(Conflict, j.declaredBy(g.guest), "", "%d further hosts of registries are not served, since others have them", len(all)-i)
			return
		}
		j.conflict(j.declaredBy(g.guest), j.declaredBy(g.owner), "", "%s is a host of %s: what %s says of it is not used", g.guest.Host,
			j.ownerName(g.owner), g.guest.place())
	}
}

// ownerName names a declaration in a message.
func (j *judge) ownerName(s *Service) string {
	if s.Registry != "" {
		return s.place()
	}
	return "ServiceEntry " + s.Namespace + "/" + s.Name + " (" + s.Host + ")"
}

// suffixes adds notes about ServiceEntries for a host below the suffix of a registry, which has that host too.
func (j *judge) suffixes() {
	services := j.mesh.services
	for i := 0; i < len(services); {
		end := i + 1
		for end < len(services) && services[end].Host == services[i].Host {
			end++
		}
		if own := services[i]; own.Right == RightSuffix {
			for _, s := range services[i+1 : end] {
				if s.Right == RightFull {
					j.conflict(j.declaredBy(s), j.declaredBy(own), fieldOf(s, "hosts"), "%s is a name of %s: only namespace %s uses this declaration", s.Host,
						own.place(), s.Namespace)
				}
			}
		}
		i = end
	}
}
