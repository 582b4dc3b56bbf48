package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Census counts what a source has. It is kept with each group that comes or goes, so that Losses cost what goes, not what stays.
type Census struct {
	hosts     map[string]int // groups that have one
	kinds     map[string]int // objects
	endpoints int
}

// NewCensus returns the census of a source that has nothing.
func NewCensus() *Census { return &Census{hosts: map[string]int{}, kinds: map[string]int{}} }

// Count counts a group that the source has from now on; by is -1 for one that it no longer has.
func (c *Census) Count(g Group, by int) {
	for host := range g.Hosts {
		if c.hosts[host] += by; c.hosts[host] == 0 {
			delete(c.hosts, host)
		}
	}
	for _, o := range g.Objects {
		if c.kinds[o.Kind] += by; c.kinds[o.Kind] == 0 {
			delete(c.kinds, o.Kind)
		}
	}
	c.endpoints += by * g.endpoints()
}

// Losses count what goes at once of a source. The zero Losses count nothing.
type Losses struct {
	gone      Census // groups that go as a whole
	endpoints int
	lapsed    bool
}

// Add counts a group of the source that goes; next is what is left of it.
func (l *Losses) Add(before, next Group) {
	if next.Empty() {
		if l.gone.hosts == nil {
			l.gone = *NewCensus()
		}
		l.gone.Count(before, 1)
	} else {
		l.lapsed = true
	}
	l.endpoints += EndpointsLost(before, next)
}

// Lapsed states that endpoints count, as they do where a registry no longer lists a part of a record.
func (l *Losses) Lapsed() { l.lapsed = true }

// Mass returns what goes as a text, if it is so much that it may be an accident: most hosts, all objects of a kind, or most
// endpoints where these count; else "". of is the census of the source before, beside are those of the others: a host that both have
// stays. With all, the source is measured against the whole mesh. The caller names what a host is to its users.
func (l *Losses) Mass(hosts string, of *Census, beside []*Census, all bool) string {
	if !all {
		return l.mass(hosts, Tally{Lost: l.hostsLost(of, beside), Had: len(of.hosts)}, of)
	}
	mesh := &Census{maps.Clone(of.hosts), maps.Clone(of.kinds), of.endpoints}
	for _, other := range beside {
		maps.Copy(mesh.hosts, other.hosts)
		for kind, n := range other.kinds {
			mesh.kinds[kind] += n
		}
	}
	return l.mass(hosts, Tally{Lost: l.hostsLost(of, beside), Had: len(mesh.hosts)}, mesh)
}

// hostsLost counts the hosts that no group has any more.
func (l *Losses) hostsLost(of *Census, beside []*Census) (n int) {
	for host, groups := range l.gone.hosts {
		elsewhere := func(other *Census) bool { return other.hosts[host] > 0 }
		if groups == of.hosts[host] && !slices.ContainsFunc(beside, elsewhere) {
			n++
		}
	}
	return n
}

func (l *Losses) mass(hosts string, t Tally, had *Census) string {
	var parts []string
	if t.Mass() {
		parts = append(parts, t.Of(hosts))
	}
	for _, kind := range slices.Sorted(maps.Keys(l.gone.kinds)) {
		if k := (Tally{Lost: l.gone.kinds[kind], Had: had.kinds[kind]}); k.Lost == k.Had && k.Mass() {
			parts = append(parts, fmt.Sprintf("all %d objects of kind %s", k.Had, kind))
		}
	}
	if t := (Tally{Lost: l.endpoints, Had: had.endpoints}); len(parts) == 0 && l.lapsed && t.Mass() {
		return t.Of("endpoints")
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
