package discovery

import (
	"fmt"
	"time"
)

// SourceState is what a source does.
type SourceState string

const (
	SourceSyncing SourceState = "syncing" // it runs, and has not told all that it knew at its start
	SourceSynced  SourceState = "synced"  // it runs, and tells what changes
	SourceFailed  SourceState = "failed"  // it ended with an error, and is started again after a while
	SourceEnded   SourceState = "ended"   // it has nothing more to tell
	SourceRemoved SourceState = "removed" // it was removed, and its groups are held for a while
)

var sourceStates = []SourceState{SourceSyncing, SourceSynced, SourceFailed, SourceEnded, SourceRemoved}

// SourceStatus is how a source is doing.
type SourceStatus struct {
	Name      string      `json:"name"`
	State     SourceState `json:"state"`
	Late      bool        `json:"late,omitempty"`       // it never synced within its deadline: discovery is ready without it
	Objects   int         `json:"objects"`              // services and objects that are served of it
	Changed   time.Time   `json:"changed,omitzero"`     // when it last told something new
	Restarts  int         `json:"restarts"`             // after errors
	Error     string      `json:"error,omitempty"`      // the last one
	ErrorTime time.Time   `json:"errorTime,omitzero"`   // when that was
	Malformed []string    `json:"malformed,omitempty"`  // records that cannot be read: key, and reason
	Held      int         `json:"heldGroups,omitempty"` // that the source no longer has, and that are served still
	Until     time.Time   `json:"until,omitzero"`       // when those go
}

// maxNamed is how many malformed records Lines names.
const maxNamed = 10

// Lines says what does not stand as it should, a line for each.
func (s SourceStatus) Lines() []string {
	var out []string
	say := func(format string, args ...any) {
		out = append(out, "source "+s.Name+": "+fmt.Sprintf(format, args...))
	}
	switch {
	case s.Late:
		say("it has not synced within its deadline, discovery is ready without it%s", s.because())
	case s.State == SourceSyncing:
		say("it has not synced yet%s", s.because())
	case s.State == SourceFailed:
		say("it failed at %s and is started again, what it told before is served%s", clock(s.ErrorTime), s.because())
	}
	for i, record := range s.Malformed {
		if i == maxNamed {
			say("%d more malformed records: see /debug/sources", len(s.Malformed)-maxNamed)
			break
		}
		say("malformed: %s", record)
	}
	if s.Held > 0 {
		say("%d groups are gone at once, served until %s", s.Held, clock(s.Until))
	}
	return out
}

func (s SourceStatus) because() string {
	if s.Error == "" {
		return ""
	}
	return ": " + s.Error
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
