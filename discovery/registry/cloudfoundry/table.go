package cloudfoundry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// The bounds of the table: a publisher that invents routes, or tags, must not use up the memory.
const (
	maxEntries     = 250_000
	maxBytes       = 128 << 20 // of all entries
	maxOfPublisher = 16 << 20  // of the instances of one address
	overhead       = 512       // bytes that an entry takes beside its texts, and in the mesh
	maxFault       = 400       // bytes of a fault
)

// table holds every route that was announced. It reads no clock.
type table struct {
	grant     model.Grant   // of the hosts of routes
	threshold time.Duration // how long a plain instance is kept without a new announcement
	limit     int
	routes    map[string]map[string]instance // by host, then by place
	faults    map[string]map[string]fault    // of malformed messages: by route or subject, then by publisher
	entries   int                            // of both
	bytes     int                            // of both
	by        map[string]int                 // bytes of instances by their address
	changed   map[string]bool                // hosts of routes that changed since the last call of unsent
	faulty    map[string]bool                // names of faults that changed since the last call of unsent
}

// fault is the fault of the last message of an instance.
type fault struct {
	text    string
	updated time.Time
}

func newTable(grant model.Grant, threshold time.Duration) *table {
	return &table{
		grant: grant, threshold: threshold, limit: maxEntries, routes: map[string]map[string]instance{}, faults: map[string]map[string]fault{},
		changed: map[string]bool{}, faulty: map[string]bool{}, by: map[string]int{},
	}
}

// register handles a message of router.register at now. It returns the number of routes of the message that it refused.
func (t *table) register(data []byte, now time.Time) (refused int) {
	m, err := read(data)
	if err != nil && len(m.URIs) == 0 {
		t.addFault("router.register", "", fmt.Sprintf("a message %v, in %q", err, clip(string(data))), now)
		return 1
	}
	i, wrong := m.instance(t.threshold)
	if err != nil {
		wrong = err
	}
	i.updated = now
	if more := len(m.URIs) - maxURIs; more > 0 {
		m.URIs = m.URIs[:maxURIs]
		refused += more
		t.addFault("router.register", m.publisher(), fmt.Sprintf("uris has %d names, want at most %d: further ones are left out", more+maxURIs, maxURIs), now)
	}
	for _, uri := range m.URIs {
		name, fault := parseURI(uri)
		if fault == nil {
			_, fault = t.grant.Right(name)
		}
		if fault == nil {
			fault = wrong
		}
		if fault == nil && !t.put(name, i) {
			t.addFault("router.register", "", fmt.Sprintf("there are %d instances and faults already, or %d MiB of them, or %d MiB of address %s: a further one is left out",
				t.limit, maxBytes>>20, maxOfPublisher>>20, i.address), now)
			refused++
			continue
		}
		if fault != nil {
			t.addFault(name, m.publisher(), fault.Error(), now)
			refused++
			continue
		}
		t.clearFault(name, m.publisher())
	}
	return refused
}

// unregister handles a message of router.unregister. Any route that was announced at the same place is removed, also
// one of another publisher.
func (t *table) unregister(data []byte, now time.Time) (refused int) {
	m, err := read(data)
	if len(m.URIs) == 0 {
		t.addFault("router.unregister", "", fmt.Sprintf("a message %v, in %q", err, clip(string(data))), now)
		return 1
	}
	m.RouteServiceURL, m.Protocol = "", "" // they do not matter for a removal
	i, wrong := m.instance(t.threshold)
	for _, uri := range m.URIs {
		name, _ := parseURI(uri)
		if wrong == nil {
			t.drop(name, i.place())
		}
		if !t.clearFault(name, m.publisher()) && (wrong != nil || err != nil) {
			refused++
		}
	}
	return refused
}

// put returns false if there is no room.
func (t *table) put(host string, i instance) bool {
	was, known := t.routes[host][i.place()]
	more := i.size(host)
	if known {
		more -= was.size(host)
	}
	if !known && t.entries >= t.limit || more > 0 && (t.bytes+more > maxBytes || t.by[i.address]+more > maxOfPublisher) {
		return false
	}
	if !known {
		t.entries++
	}
	t.weigh(i.address, more)
	if t.routes[host] == nil {
		t.routes[host] = map[string]instance{}
	}
	t.routes[host][i.place()] = i
	if !known || !was.same(i) {
		t.changed[host] = true
	}
	return true
}

// size returns how many bytes an instance takes in a route.
func (i instance) size(host string) int {
	out := overhead + len(host) + len(i.serverName) + len(i.zone) + len(i.balancing)
	for key, value := range i.labels {
		out += len(key) + len(value)
	}
	return out
}

// weigh adds bytes of an address.
func (t *table) weigh(address string, more int) {
	t.bytes += more
	if t.by[address] += more; t.by[address] == 0 {
		delete(t.by, address)
	}
}

// same reports whether two instances are served in the same way.
func (i instance) same(o instance) bool {
	return i.address == o.address && i.port == o.port && i.tls == o.tls && i.serverName == o.serverName && i.protocol == o.protocol &&
		i.zone == o.zone && i.balancing == o.balancing && i.omitted == o.omitted && maps.Equal(i.labels, o.labels)
}

func (t *table) drop(host, place string) {
	was, known := t.routes[host][place]
	if !known {
		return
	}
	t.weigh(was.address, -was.size(host))
	if delete(t.routes[host], place); len(t.routes[host]) == 0 {
		delete(t.routes, host)
	}
	t.entries--
	t.changed[host] = true
}

// addFault records the fault of an instance's message. Faults that it had before are not reported again.
func (t *table) addFault(name, publisher, text string, now time.Time) {
	if len(text) > maxFault {
		text = strings.ToValidUTF8(text[:maxFault], "") + "…"
	}
	was, known := t.faults[name][publisher]
	if publisher == "" && known {
		text = was.text // of many malformed messages the first fault is shown
	}
	more := len(text) - len(was.text)
	if !known {
		more += overhead + len(name) + len(publisher)
		if publisher != "" && (t.entries >= t.limit || t.bytes+more > maxBytes) {
			return // it is counted
		}
		t.entries++
	}
	t.bytes += more
	if t.faults[name] == nil {
		t.faults[name] = map[string]fault{}
	}
	t.faults[name][publisher] = fault{text, now}
	if !known || was.text != text {
		t.faulty[name] = true
	}
}

// clearFault reports whether there was a fault.
func (t *table) clearFault(name, publisher string) bool {
	was, known := t.faults[name][publisher]
	if !known {
		return false
	}
	t.bytes -= overhead + len(name) + len(publisher) + len(was.text)
	if delete(t.faults[name], publisher); len(t.faults[name]) == 0 {
		delete(t.faults, name)
	}
	t.entries--
	t.faulty[name] = true
	return true
}

// due reports whether a sweep at now would drop something.
func (t *table) due(now time.Time) bool {
	for _, route := range t.routes {
		for _, i := range route {
			if i.aged(now) {
				return true
			}
		}
	}
	return len(t.faults) > 0
}

// aged reports whether an instance was not announced for longer than allowed.
func (i instance) aged(now time.Time) bool { return i.stale > 0 && now.Sub(i.updated) > i.stale }

// sweep drops plain instances that were not announced for longer than allowed, and faults of the same age. It returns
// the number of dropped instances.
func (t *table) sweep(now time.Time) (pruned int) {
	for host, route := range t.routes {
		for place, i := range route {
			if i.aged(now) {
				t.drop(host, place)
				pruned++
			}
		}
	}
	for name, faults := range t.faults {
		for publisher, f := range faults {
			if now.Sub(f.updated) > t.threshold {
				t.clearFault(name, publisher)
			}
		}
	}
	return pruned
}

// refresh sets the age of everything to zero: while NATS could not be reached no publisher could announce anything.
func (t *table) refresh(now time.Time) {
	for _, route := range t.routes {
		for place, i := range route {
			i.updated = now
			route[place] = i
		}
	}
	for _, faults := range t.faults {
		for publisher, f := range faults {
			f.updated = now
			faults[publisher] = f
		}
	}
}

// markAll makes unsent return everything.
func (t *table) markAll() {
	for host := range t.routes {
		t.changed[host] = true
	}
	for name := range t.faults {
		t.faulty[name] = true
	}
}

// unsent returns the groups that changed since the last call.
func (t *table) unsent() map[string]model.Group {
	groups := make(map[string]model.Group, len(t.changed)+len(t.faulty))
	for host := range t.changed {
		groups[host] = groupOf(host, t.routes[host])
	}
	for name := range t.faulty {
		group := model.Group{}
		faults := t.faults[name]
		for _, publisher := range slices.Sorted(maps.Keys(faults)) {
			if len(group.Faults) == maxFaults {
				group.Faults = append(group.Faults, "further instances have faults")
				break
			}
			text := faults[publisher].text
			if publisher != "" {
				text = clip(publisher) + ": " + text
			}
			group.Faults = append(group.Faults, text)
		}
		groups["messages for "+name] = group // a group without services: a malformed message removes nothing
	}
	clear(t.changed)
	clear(t.faulty)
	return groups
}

// maxFaults is how many faults of one route are shown.
const maxFaults = 8

// port is the port at which clients call every route: gorouter serves all routes at the port of HTTP.
const port = 80

// groupOf converts a route. A route without instances becomes an empty group, which deletes it.
func groupOf(host string, route map[string]instance) model.Group {
	if len(route) == 0 {
		return model.Group{}
	}
	s := &model.Service{
		Registry: "CloudFoundry", Right: model.RightGuest, Host: host, Namespace: "default", Name: host, Resolution: model.ResolutionStatic,
		Ports: []model.Port{{Name: "http", Number: port, Protocol: model.HTTP2}},
	}
	tls, http2, balancing := 0, 0, ""
	var omitted []string // of instances with too many tags
	for _, place := range slices.Sorted(maps.Keys(route)) {
		i := route[place]
		if s.Origin.Record == nil {
			s.Origin.Record = &model.Record{UID: strings.TrimSpace("route to " + place + " " + i.labels[labelApp])}
		}
		s.Endpoints = append(s.Endpoints, model.Endpoint{
			Address: i.address, Ports: map[string]uint32{"http": i.port}, Labels: i.labels, Locality: model.Locality{Zone: i.zone},
		})
		if i.tls {
			tls++
		}
		if i.protocol == model.HTTP2 {
			http2++
		}
		if i.serverName != "" {
			s.SubjectAltNames = append(s.SubjectAltNames, i.serverName)
		}
		balancing = i.balancing
		if i.omitted > 0 {
			omitted = append(omitted, fmt.Sprintf("%s: %d tags are left out, want at most %d of %d bytes", place, i.omitted, model.MaxLabels, model.MaxLabel))
		}
	}
	slices.Sort(s.SubjectAltNames)
	s.SubjectAltNames = slices.Compact(s.SubjectAltNames)
	if http2 < len(route) {
		s.Ports[0].Protocol = model.HTTP
	}
	faults := omitted[:min(len(omitted), maxFaults):min(len(omitted), maxFaults)]
	mixed := func(n int, what, rest string) {
		if n > 0 && n < len(route) {
			faults = append(faults, fmt.Sprintf("%d of %d instances %s: %s", n, len(route), what, rest))
		}
	}
	mixed(tls, "take TLS, the others plain text", "want subsets by the label "+labelTLS+", each with its own trafficPolicy.tls")
	mixed(http2, "take HTTP/2, the others HTTP/1.1", "all are called by HTTP/1.1")
	if balancing != "" {
		faults = append(faults, fmt.Sprintf("options.loadbalancing is %q, which is not served: want trafficPolicy.loadBalancer of a DestinationRule",
			clip(balancing)))
	}
	return model.Group{Services: []*model.Service{s}, Faults: faults}
}
