package consul

import (
	"maps"
	"reflect"
	"slices"
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
