package agent

import (
	"log/slog"
	"maps"
	"slices"
	"time"
)

// Note is the kind of an event. Each event is logged, added to the history and counted.
type Note string

// The notes. Those that are warnings are listed in warnings.
const (
	Starting   Note = "starting Envoy"
	Serving    Note = "Envoy serves"
	HandedOver Note = "handed over to a newcomer"
	RolledBack Note = "a newcomer failed, its parent serves on"
	Restored   Note = "an Envoy with the same configuration has replaced one without its admin"
	Rejected   Note = "configuration refused, the last good one stays"
	Replaced   Note = "a replaced Envoy left"
	Failed     Note = "Envoy ended unasked"
	Hanging    Note = "Envoy hangs"
	Late       Note = "Envoy has outstayed its time"
	Rescuing   Note = "a parent died in the overlap, standing in for it"
	Drained    Note = "drained: out of service until resumed"
	Resumed    Note = "resumed: back in service once an epoch serves that was not drained"
	Stayed     Note = "the agent was not replaced, it goes on"
	Upgraded   Note = "another image of the agent goes on"
	Stopping   Note = "stopping"
	Stopped    Note = "Envoy stopped"
)

// Notes returns every note, in the order in which they happen.
func Notes() []Note {
	return []Note{
		Starting, Serving, HandedOver, RolledBack, Rejected, Restored, Replaced, Failed, Hanging, Late, Rescuing,
		Drained, Resumed, Stayed, Upgraded, Stopping, Stopped,
	}
}

var warnings = []Note{RolledBack, Rejected, Failed, Hanging, Late, Rescuing, Stayed}

// noted is a note as the core makes it; it is an action like any other.
type noted struct {
	note  Note
	epoch int    // -1 when the note concerns no epoch
	why   string // empty without a reason
}

func (d *decision) note(note Note, epoch int, why string) { d.do(noted{note, epoch, why}) }

// Event is a line of history.
type Event struct {
	At    time.Time `json:"at"`
	Note  Note      `json:"note"`
	Epoch int       `json:"epoch"` // -1 when the event concerns no epoch
	Why   string    `json:"why,omitempty"`
}

// keptEvents bounds the history.
const keptEvents = 50

// history holds the counts of all events and the last events.
type history struct {
	counts map[Note]int
	events []Event
}

// add writes a note to the log and the history, and returns its event.
func (h *history) add(n noted, now time.Time, log *slog.Logger) Event {
	if h.counts == nil {
		h.counts = map[Note]int{}
	}
	h.counts[n.note]++
	e := Event{now, n.note, n.epoch, n.why}
	h.events = append(h.events[max(0, len(h.events)-keptEvents+1):], e)
	var attributes []any
	if n.epoch >= 0 {
		attributes = append(attributes, "epoch", n.epoch)
	}
	if n.why != "" {
		attributes = append(attributes, "why", n.why)
	}
	if slices.Contains(warnings, n.note) {
		log.Warn(string(n.note), attributes...)
	} else {
		log.Info(string(n.note), attributes...)
	}
	return e
}

// copied returns a history that the loop does not change.
func (h *history) copied() (map[Note]int, []Event) {
	return maps.Clone(h.counts), slices.Clone(h.events)
}
