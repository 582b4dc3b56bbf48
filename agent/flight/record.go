package flight

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/agent/cgroup"
)

// Record is the data about an incident. Every part may be missing.
type Record struct {
	Time      time.Time        `json:"time"`
	Cause     string           `json:"cause"` // "crash", "hang: silent", "handover: not live in time"
	Epoch     int              `json:"epoch"`
	Exit      string           `json:"exit,omitempty"`
	OOMKilled bool             `json:"oom_killed"` // see cgroup.OOMKilled
	Process   Process          `json:"process"`    // last read
	Before    cgroup.Memory    `json:"cgroup_before"`
	After     cgroup.Memory    `json:"cgroup_after"`
	History   []Event          `json:"history,omitempty"`    // oldest first
	LastLines []string         `json:"last_lines,omitempty"` // of Envoy, oldest first
	Stats     map[string]int64 `json:"stats,omitempty"`
	Bootstrap json.RawMessage  `json:"bootstrap,omitempty"` // as Envoy received it; masked when the record is written
	Notes     []string         `json:"notes,omitempty"`     // the parts that were left out, and why
}

// Event is an earlier event.
type Event struct {
	Time time.Time `json:"time"`
	What string    `json:"what"`
}

// Limits of the parts, in bytes of the written JSON. Together they stay below 256 KB.
const (
	indent         = " "
	textBound      = 4 << 10 // of one text
	historyBound   = 24 << 10
	lineBound      = 96 << 10
	statsBound     = 32 << 10
	bootstrapBound = 64 << 10
)

// bounded returns the record without secrets, and cut to its limits. The oldest lines are left out first.
func (r Record) bounded() Record {
	r.Notes = slices.Clone(r.Notes)
	r.Cause, r.Exit = cut(MaskText(r.Cause)), cut(MaskText(r.Exit))
	history, lines := slices.Clone(r.History), slices.Clone(r.LastLines)
	for i, e := range history {
		history[i].What = cut(MaskText(e.What))
	}
	for i, line := range lines {
		lines[i] = cut(MaskText(line))
	}
	r.History = newest(&r, "history", history, historyBound)
	r.LastLines = newest(&r, "last_lines", lines, lineBound)
	r.Stats = r.cutStats()
	r.Bootstrap = r.cutBootstrap()
	return r
}

func (r *Record) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// newest returns as many items from the end as fit.
func newest[T any](r *Record, name string, items []T, bound int) []T {
	first, size := len(items), 0
	for first > 0 {
		if size += encodedSize(items[first-1]); size > bound {
			break
		}
		first--
	}
	if first > 0 {
		r.note("%s: the oldest %d of %d were left out", name, first, len(items))
	}
	return items[first:]
}

func (r *Record) cutStats() map[string]int64 {
	if encodedSize(r.Stats) <= statsBound {
		return r.Stats
	}
	kept, size := map[string]int64{}, 0
	for _, name := range slices.Sorted(maps.Keys(r.Stats)) {
		if size += encodedSize(name); size > statsBound {
			break
		}
		kept[name] = r.Stats[name]
	}
	r.note("stats: %d of %d were left out", len(r.Stats)-len(kept), len(r.Stats))
	return kept
}

// cutBootstrap returns the bootstrap masked, and cut if it is too long. A bootstrap that cannot be masked is left out.
func (r *Record) cutBootstrap() json.RawMessage {
	if len(r.Bootstrap) == 0 {
		return nil
	}
	masked, err := Mask(r.Bootstrap)
	if err != nil {
		r.note("bootstrap: left out, secrets in it could not be found: %v", err)
		return nil
	}
	var indented bytes.Buffer
	json.Indent(&indented, masked, indent, indent) // valid: Mask wrote it
	if indented.Len() <= bootstrapBound {
		return masked
	}
	begin := masked[:min(len(masked), bootstrapBound/2)] // as text, quotes take two bytes
	for encodedSize(string(begin)) > bootstrapBound {
		begin = begin[:len(begin)*3/4]
	}
	r.note("bootstrap: the first %d of %d bytes, as text", len(begin), len(masked))
	text, _ := json.Marshal(string(begin))
	return text
}

// cut limits a text by its size in JSON, in which one byte may become six.
func cut(text string) string {
	const mark = " …"
	if len(text) <= textBound/6 || encodedSize(text) <= textBound {
		return text
	}
	text = text[:min(len(text), textBound)]
	for encodedSize(text) > textBound-2*len(mark) {
		text = text[:len(text)*3/4]
	}
	return text + mark
}

func encodedSize(v any) int {
	const around = 64          // a name, indents and commas
	data, _ := json.Marshal(v) // of strings, numbers and times
	return len(data) + around
}
