package lastgood

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/pilotlight/pilotlight/agent/frame"
)

// place is where a resource lies in the file.
type place struct {
	name    string
	version string
	from    int64
	size    int
}

// Memory is what a journal holds: each resource's place by type and name. The zero value holds nothing.
type Memory struct {
	types   map[string]map[string]place
	waiting map[uint64]waiting // responses without an answer of Envoy's
}

type waiting struct {
	response
	from int64
	size int // of its message
}

// apply takes the next record of a journal. A record that contradicts the ones before counts as a broken one.
func (m *Memory) apply(r record) error {
	switch r.kind {
	case kindResponse:
		message, err := parseResponse(r.message)
		if _, twice := m.waiting[r.number]; err != nil || twice {
			return errEnd
		}
		if m.waiting == nil {
			m.waiting = map[uint64]waiting{}
		}
		m.waiting[r.number] = waiting{message, r.from, len(r.message)}
	case kindAccepted:
		w, known := m.waiting[r.number]
		if !known {
			return errEnd
		}
		delete(m.waiting, r.number)
		m.accept(w, r.refused)
	}
	return nil
}

func (m *Memory) accept(w waiting, refused []string) {
	if w.typeURL == TypeSecret || w.typeURL == "" {
		return
	}
	if m.types == nil {
		m.types = map[string]map[string]place{}
	}
	held := m.types[w.typeURL]
	if held == nil {
		held = map[string]place{}
		m.types[w.typeURL] = held
	}
	for _, name := range w.removed {
		delete(held, name)
	}
	for _, one := range w.resources {
		if slices.Contains(refused, one.name) {
			continue
		}
		held[one.name] = place{one.name, one.version, w.from + int64(one.from), one.size}
	}
}

// Serves reports whether the memory has what an Envoy needs at least: an answer for clusters and for listeners, and one
// listener.
func (m *Memory) Serves() bool {
	_, clusters := m.types[TypeCluster]
	return clusters && len(m.types[TypeListener]) > 0
}

// Versions returns the names and versions of a type's resources.
func (m *Memory) Versions(typeURL string) map[string]string {
	out := map[string]string{}
	for name, p := range m.types[typeURL] {
		out[name] = p.version
	}
	return out
}

// names returns a type's names in order.
func (m *Memory) names(typeURL string) []string {
	return slices.Sorted(maps.Keys(m.types[typeURL]))
}

// Answers answers the requests of one delta stream from a Memory. It does no I/O.
type Answers struct {
	Memory *Memory

	types  map[string]*interest
	nonces int
}

// interest is what a stream subscribes to of a type.
type interest struct {
	wildcard bool
	names    map[string]bool
}

// Answer is a DeltaDiscoveryResponse whose resources lie in the file.
type Answer struct {
	Type    string
	Nonce   string
	Removed []string
	places  []place
}

// Request returns the answers to a request. ACKs and NACKs have none. A name that is not remembered is answered with its
// removal, so that Envoy does not wait for it; secrets are not, for discovery may have them later.
func (a *Answers) Request(r Request) []Answer {
	if r.Type == TypeSecret || r.Type == "" {
		return nil
	}
	first := false
	i := a.types[r.Type]
	if i == nil {
		if a.types == nil {
			a.types = map[string]*interest{}
		}
		i = &interest{wildcard: len(r.Subscribe) == 0, names: map[string]bool{}}
		a.types[r.Type], first = i, true
	}
	for _, name := range r.Unsubscribe {
		delete(i.names, name)
		i.wildcard = i.wildcard && name != "*"
	}
	out := Answer{Type: r.Type}
	all := first && i.wildcard
	for _, name := range r.Subscribe {
		if name == "*" {
			i.wildcard, all = true, true
			continue
		}
		i.names[name] = true
		out.add(a.Memory, name, r.Versions)
	}
	if all {
		out.places, out.Removed = nil, nil
		for _, name := range a.Memory.names(r.Type) {
			out.add(a.Memory, name, r.Versions)
		}
		for name := range r.Versions {
			if _, held := a.Memory.types[r.Type][name]; !held {
				out.Removed = append(out.Removed, name)
			}
		}
		slices.Sort(out.Removed)
	}
	if !all && len(out.places)+len(out.Removed) == 0 {
		return nil
	}
	answers := []Answer{out}
	if eds := a.types[TypeEndpoints]; r.Type == TypeCluster && len(out.places) > 0 && eds != nil {
		answers = append(answers, a.again(TypeEndpoints, eds)) // a changed cluster waits for endpoints, also for unchanged ones
	}
	for i := range answers {
		a.nonces++
		answers[i].Nonce = "last-good-" + strconv.Itoa(a.nonces)
	}
	return answers
}

func (a *Answers) again(typeURL string, i *interest) Answer {
	out := Answer{Type: typeURL}
	for _, name := range a.Memory.names(typeURL) {
		if i.names[name] {
			out.add(a.Memory, name, nil)
		}
	}
	return out
}

func (a *Answer) add(m *Memory, name string, has map[string]string) {
	p, held := m.types[a.Type][name]
	version, known := has[name]
	switch {
	case !held:
		a.Removed = append(a.Removed, name)
	case !known || version != p.version:
		a.places = append(a.places, p)
	}
}

// names returns those of its resources, for clusters and listeners.
func (a *Answer) names() (names []string) {
	if a.Type == TypeCluster || a.Type == TypeListener {
		for _, p := range a.places {
			names = append(names, p.name)
		}
	}
	return names
}

func (a *Answer) last() Mark {
	if n := len(a.Removed); n > 0 {
		return Mark{Name: a.Removed[n-1], Removed: true}
	}
	if n := len(a.places); n > 0 {
		return Mark{Name: a.places[n-1].name, Version: a.places[n-1].version}
	}
	return Mark{Removed: true}
}

// message returns the fields of the answer without its resources, and the size of the whole.
func (a *Answer) message() (rest []byte, size int, err error) {
	rest = frame.Append(rest, 1, []byte("last-good"))
	rest = frame.Append(rest, 4, []byte(a.Type))
	rest = frame.Append(rest, 5, []byte(a.Nonce))
	for _, name := range a.Removed {
		rest = frame.Append(rest, 6, []byte(name))
	}
	size = len(rest)
	for _, p := range a.places {
		size += len(frame.Prefix(2, p.size)) + p.size
	}
	if size > 1<<30 {
		return nil, 0, fmt.Errorf("an answer of %d bytes", size)
	}
	return rest, size, nil
}
