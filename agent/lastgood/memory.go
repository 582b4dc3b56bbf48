package lastgood

import (
	"maps"
	"slices"
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
