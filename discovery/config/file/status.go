package file

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Status is the state of the store, for people.
type Status struct {
	Objects  int       `json:"objects"`            // objects that are served
	LastGood []string  `json:"lastGood,omitempty"` // those of them whose present form is refused, each with its place
	Refused  []string  `json:"refused,omitempty"`  // objects that are not served at all, each with its place
	Lost     []string  `json:"lost,omitempty"`     // files in which not even the names of all objects can be read now
	Unread   []string  `json:"unread,omitempty"`   // those for which this has been so since the start
	Waiting  []string  `json:"waiting,omitempty"`  // files that are being written, with a new form that is not applied yet
	Held     string    `json:"held,omitempty"`     // text about objects that disappeared at once and are still served
	Since    time.Time `json:"since,omitzero"`     // when that was
	Until    time.Time `json:"until,omitzero"`     // when those are removed
	HeldNow  int       `json:"heldObjects"`        // number of these objects
	Fault    string    `json:"fault,omitempty"`    // why the store as a whole cannot be read now

	Kinds map[string]Count `json:"kinds"`
}

// Count is how many objects of a kind are in each state.
type Count struct {
	Served   int `json:"served"` // in their present form
	LastGood int `json:"lastGood,omitempty"`
	Refused  int `json:"refused,omitempty"`
	Held     int `json:"held,omitempty"`
}

func objectKind(key string) string {
	kind, _, _ := strings.Cut(key, "/")
	return kind
}

// status returns the state of the store.
func (s *state) status() Status {
	out := Status{
		Objects: len(s.objects), Waiting: slices.Sorted(maps.Keys(s.waiting)),
		Held: s.held.what, Since: s.held.since, Until: s.held.until, HeldNow: len(s.missing),
		Kinds: make(map[string]Count, len(s.kinds)),
	}
	count := func(kind string, add Count) {
		c := out.Kinds[kind]
		out.Kinds[kind] = Count{c.Served + add.Served, c.LastGood + add.LastGood, c.Refused + add.Refused, c.Held + add.Held}
	}
	for kind, n := range s.kinds {
		count(kind, Count{Served: n})
	}
	for key := range s.missing {
		count(objectKind(key), Count{Served: -1, Held: 1})
	}
	counted := map[string]bool{} // two files may refuse one object
	for _, name := range slices.Sorted(maps.Keys(s.faulty)) {
		f := s.files[name]
		switch {
		case f.blind:
			out.Unread = append(out.Unread, name)
		case f.unreadable > 0:
			out.Lost = append(out.Lost, name)
		}
		for _, key := range slices.Sorted(maps.Keys(f.refused)) {
			entry := fmt.Sprintf("%s (%s:%d)", key, name, f.refused[key])
			add := Count{Refused: 1}
			if s.objects[key] == nil {
				out.Refused = append(out.Refused, entry)
			} else {
				out.LastGood = append(out.LastGood, entry)
				add = Count{Served: -1, LastGood: 1}
			}
			if !counted[key] {
				counted[key] = true
				count(objectKind(key), add)
			}
		}
	}
	return out
}

// Lines returns a line for each fault of the store.
func (s Status) Lines() []string {
	var out []string
	if s.Fault != "" {
		out = append(out, "configuration: it cannot be read, what it held is served: "+s.Fault)
	}
	for _, list := range []struct {
		what string
		of   []string
	}{
		{"refused, not served", s.Refused},
		{"refused, the last good form is served", s.LastGood},
		{"cannot be read, what it held is served", s.Lost},
		{"cannot be read, and was not since the start", s.Unread},
		{"is being written, its last form is served", s.Waiting},
	} {
		for _, name := range list.of {
			out = append(out, fmt.Sprintf("configuration: %s: %s", name, list.what))
		}
	}
	if s.Held != "" {
		out = append(out, fmt.Sprintf("configuration: %s gone at once, served until %s", s.Held, s.Until.UTC().Format(time.RFC3339)))
	}
	return out
}
