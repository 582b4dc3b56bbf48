package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Losses count what goes at once of a source. The zero Losses count nothing.
type Losses struct {
	hosts     map[string]bool // and whether it stays
	kinds     map[string]Tally
	endpoints Tally
	lapsed    bool
}

// Add counts a group that a source has had. If it goes, next is what is left of it.
func (l *Losses) Add(before Group, goes bool, next Group) {
	if l.hosts == nil {
		l.hosts, l.kinds = map[string]bool{}, map[string]Tally{}
	}
	gone := goes && next.Empty()
	for host := range before.Hosts {
		l.hosts[host] = l.hosts[host] || !gone
	}
	for _, o := range before.Objects {
		t := l.kinds[o.Kind]
		if t.Had++; gone {
			t.Lost++
		}
		l.kinds[o.Kind] = t
	}
	l.endpoints.Had += before.endpoints()
	if goes {
		l.endpoints.Lost += EndpointsLost(before, next)
		l.lapsed = l.lapsed || !gone
	}
}

// Lapsed states that endpoints count, as they do where a registry no longer lists a part of a record.
func (l *Losses) Lapsed() { l.lapsed = true }

// Beside counts a group of another source: the hosts that both have stay. All of it counts as if it were of the source, if the
// source is measured against the whole mesh.
func (l *Losses) Beside(other Group, all bool) {
	for host := range other.Hosts {
		if _, here := l.hosts[host]; here || all {
			l.hosts[host] = true
		}
	}
	if !all {
		return
	}
	for _, o := range other.Objects {
		if t, here := l.kinds[o.Kind]; here {
			l.kinds[o.Kind] = Tally{t.Lost, t.Had + 1}
		}
	}
}

// Mass returns what goes as a text, if it is so much that it may be an accident: most hosts, all objects of a kind, or most
// endpoints where these count; else "". The caller names what a host is to its users.
func (l *Losses) Mass(hosts string) string {
	var parts []string
	t := Tally{Had: len(l.hosts)}
	for _, stays := range l.hosts {
		if !stays {
			t.Lost++
		}
	}
	if t.Mass() {
		parts = append(parts, t.Of(hosts))
	}
	for _, kind := range slices.Sorted(maps.Keys(l.kinds)) {
		if k := l.kinds[kind]; k.Lost == k.Had && k.Mass() {
			parts = append(parts, fmt.Sprintf("all %d objects of kind %s", k.Had, kind))
		}
	}
	if len(parts) == 0 && l.lapsed && l.endpoints.Mass() {
		return l.endpoints.Of("endpoints")
	}
	return strings.Join(parts, ", ")
}

// EndpointsLost returns how many endpoints of a group its next content lacks.
func EndpointsLost(before, now Group) (n int) {
	has := map[string]bool{}
	for _, service := range now.Services {
		for i := range service.Endpoints {
			has[service.Host+" "+service.Endpoints[i].Address] = true
		}
	}
	for _, service := range before.Services {
		for i := range service.Endpoints {
			if !has[service.Host+" "+service.Endpoints[i].Address] {
				n++
			}
		}
	}
	return n
}

func (g Group) endpoints() (n int) {
	for _, service := range g.Services {
		n += len(service.Endpoints)
	}
	return n
}
