package consul

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// view holds the last answers of Consul's lists. Methods that take a new list return the names of the services that
// must be read again.
type view struct {
	tags   map[string][]string  // of each service, in order
	checks map[checkKey]check   // of instances and of nodes
	nodes  map[string]nodeEntry // by name
	on     map[string]names     // the services that have an instance on a node
	where  map[string][]string  // the nodes of a service
}

type checkKey struct{ node, id string }

// check holds the fields of a check that a service depends on. The output of the check is not one of them.
type check struct{ service, serviceID, status string }

func newView() *view {
	return &view{
		tags: map[string][]string{}, checks: map[checkKey]check{}, nodes: map[string]nodeEntry{}, on: map[string]names{}, where: map[string][]string{},
	}
}

// names is a set of services.
type names map[string]bool

// services sets the catalogue. It returns the services to read, and those that no longer exist.
func (v *view) services(list map[string][]string) (changed, gone names) {
	changed, gone = names{}, names{}
	now := make(map[string][]string, len(list))
	for name, tags := range list {
		if name == servers {
			continue
		}
		tags = slices.Sorted(slices.Values(tags))
		if before, known := v.tags[name]; !known || !slices.Equal(before, tags) {
			changed[name] = true
		}
		now[name] = tags
	}
	for name := range v.tags {
		if _, is := now[name]; !is {
			gone[name] = true
			v.leaves(name)
		}
	}
	v.tags = now
	return changed, gone
}

// state sets all health checks.
func (v *view) state(list healthChecks) names {
	changed, now := names{}, make(map[checkKey]check, len(list))
	for _, c := range list {
		if c != nil {
			now[checkKey{c.Node, c.CheckID}] = check{c.ServiceName, c.ServiceID, c.Status}
		}
	}
	for key, c := range now {
		if before, known := v.checks[key]; !known || before != c {
			v.touch(changed, key, c)
			v.touch(changed, key, before)
		}
	}
	for key, before := range v.checks {
		if _, is := now[key]; !is {
			v.touch(changed, key, before)
		}
	}
	v.checks = now
	return changed
}

// touch adds the services that a check concerns: its own, or all on its node.
func (v *view) touch(changed names, key checkKey, c check) {
	switch {
	case c.service != "":
		changed[c.service] = true
	case c.status != "":
		maps.Copy(changed, v.on[key.node])
	}
}

// list sets the nodes.
func (v *view) list(nodes []*nodeEntry) names {
	changed, now := names{}, make(map[string]nodeEntry, len(nodes))
	for _, n := range nodes {
		if n != nil {
			now[n.Node] = nodeEntry{Address: n.Address, Datacenter: n.Datacenter, Meta: n.Meta, Locality: n.Locality}
		}
	}
	for name, n := range now {
		if before, known := v.nodes[name]; known && !reflect.DeepEqual(before, n) {
			maps.Copy(changed, v.on[name])
		}
	}
	v.nodes = now
	return changed
}

// read sets the instances of a service.
func (v *view) read(name string, entries []*serviceEntry) {
	v.leaves(name)
	for _, e := range entries {
		if e == nil || e.Node == nil {
			continue
		}
		node := e.Node.Node
		if v.on[node] == nil {
			v.on[node] = names{}
		}
		v.on[node][name] = true
		v.where[name] = append(v.where[name], node)
	}
}

func (v *view) leaves(name string) {
	for _, node := range v.where[name] {
		if delete(v.on[node], name); len(v.on[node]) == 0 {
			delete(v.on, node)
		}
	}
	delete(v.where, name)
}

// known returns those services that the catalogue has: a check may arrive before its service.
func (v *view) known(all names) names {
	out := names{}
	for name := range all {
		if _, is := v.tags[name]; is {
			out[name] = true
		}
	}
	return out
}

// keep is how long a service is kept that Consul lacks after it could not be reached. A server that returns alone
// considers its agents dead, and drops their services, until the agents have reached it again: an agent that cannot
// register them at once tries again after 15 s.
const keep = 30 * time.Second

// lacking holds the groups that the run before sent, and the names of those that the present run lacks.
type lacking struct {
	before map[string]model.Group // by service; empty in the first run, and when the time is over
	until  time.Time              // the end of that time; zero before Consul has answered
	kept   names
}

// instead returns the group to send for a service: if Consul no longer has the service, the group of the run before.
func (l *lacking) instead(name string, g model.Group) model.Group {
	if before, known := l.before[name]; known && g.Empty() {
		l.kept[name] = true
		return model.Group{Services: before.Services, Faults: []string{"Consul lacks it since it was away: it is kept for " + keep.String()}}
	}
	delete(l.kept, name)
	return g
}

// expire returns the services that are no longer kept.
func (l *lacking) expire(now time.Time) []string {
	if l.until.IsZero() || now.Before(l.until) {
		return nil
	}
	gone := slices.Sorted(maps.Keys(l.kept))
	l.before, l.until, l.kept = nil, time.Time{}, names{}
	return gone
}

// remember returns the groups for the next run: those that this run sent and, if it had not synced, also those of the
// run before.
func (l *lacking) remember(told map[string]model.Group, synced bool) map[string]model.Group {
	out := map[string]model.Group{}
	if !synced {
		maps.Copy(out, l.before)
	}
	for name, g := range told {
		if len(g.Services) > 0 {
			out[name] = g
		}
	}
	return out
}
