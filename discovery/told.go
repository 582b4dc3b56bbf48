package discovery

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// told is what one source has told, and how the source is doing.
type told struct {
	feed   *feed // nil when the source was removed, and its groups are held
	groups map[string]model.Group
	faults map[string][]string // of records that are malformed, by key

	// again holds the keys that a source has told since it was started, until it has synced: what it does not tell
	// again was deleted while it was away. Nil after that.
	again map[string]bool

	// held are groups that the source no longer has. They are served until the time is over: so many went at once that it
	// may be an accident.
	held  map[string]bool
	until time.Time

	deadline time.Time // the first mesh waits for the source until then
	settled  bool      // it has synced, or ended, at least once
	status   SourceStatus
}

func newTold() *told {
	return &told{groups: map[string]model.Group{}, faults: map[string][]string{}, held: map[string]bool{}}
}

// waits reports whether the source has neither synced nor passed its deadline.
func (t *told) waits() bool { return t.feed != nil && !t.settled && !t.status.Late }

// take notes what an update changes: it calls changed with each group as it was.
func (t *told) take(u model.Update, changed func(key string, before model.Group)) {
	for key, group := range u.Groups {
		if t.again != nil {
			t.again[key] = true
		}
		delete(t.held, key)
		t.note(key, group.Faults)
		before, had := t.groups[key]
		switch {
		case group.Malformed(), had && !group.Empty() && group.Same(before):
		case !group.Empty():
			t.put(key, group)
			changed(key, before)
		case had:
			t.drop(key)
			changed(key, before)
		}
	}
}

// missed returns the keys that the source had in an earlier run and has not told again, now that it has synced.
func (t *told) missed() []string {
	if t.again == nil {
		return nil
	}
	var out []string
	for key := range t.groups {
		if !t.again[key] {
			out = append(out, key)
		}
	}
	for key := range t.faults {
		if !t.again[key] {
			t.note(key, nil)
		}
	}
	t.again = nil
	slices.Sort(out)
	return out
}

func (t *told) put(key string, group model.Group) {
	t.status.Objects += group.Len() - t.groups[key].Len()
	t.groups[key] = group
}

func (t *told) drop(key string) {
	t.status.Objects -= t.groups[key].Len()
	delete(t.groups, key)
	delete(t.held, key)
}

// note keeps the faults of a record; none ends those that were kept.
func (t *told) note(key string, faults []string) {
	if slices.Equal(t.faults[key], faults) {
		return
	}
	if t.faults[key] = faults; len(faults) == 0 {
		delete(t.faults, key)
	}
	t.status.Malformed = nil // made again when it is asked for
}

// report returns the source's status.
func (t *told) report() SourceStatus {
	if t.status.Malformed == nil && len(t.faults) > 0 {
		for _, key := range slices.Sorted(maps.Keys(t.faults)) {
			for _, fault := range t.faults[key] {
				t.status.Malformed = append(t.status.Malformed, fmt.Sprintf("%s: %s", key, fault))
			}
		}
	}
	out := t.status
	out.Held, out.Until = len(t.held), t.until
	return out
}
