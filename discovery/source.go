package discovery

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/secret"
)

// Source sends groups of services and objects, and then changes, until ctx is done. After an error the server starts it
// again, and it sends everything again. A Source that returns nil has nothing more to send.
// discovery/registry/README.md describes how to write one.
type Source interface {
	Run(ctx context.Context, updates chan<- model.Update) error
}

// OnlySources is a Source that adds other sources and sends only faults. It adds those that exist at its start before
// it syncs. The sync of such a source alone is not enough for the first mesh.
type OnlySources interface {
	Source
	OnlySources()
}

// OpenRegistry is a Source of a registry in which anybody may write: each of its services has a model.Right that says so.
// No host of another source can belong to it, so no other source waits for it.
type OpenRegistry interface {
	Source
	OpenRegistry()
}

// Holder is a Source that itself holds what is gone at once: files, of which nobody says that they were deleted, and a control plane
// that has just started. Its methods may be called from any goroutine.
type Holder interface {
	Source
	// Held returns what is held, such as "9 of 10 services", how many groups that is, since when and until when; "" and 0 for nothing.
	Held() (lost string, groups int, since, until time.Time)
	// Release ends the hold: what is gone is removed.
	Release()
}

// The generic parts of this package, for the two kinds of sources: those of the mesh, and those of secrets.
type (
	feed        = feedOf[model.Update]
	sourceEvent = eventOf[model.Update]

	secretFeed  = feedOf[secret.Update]
	secretEvent = eventOf[secret.Update]
)

// SourceState is the state of a source.
type SourceState string

const (
	SourceSyncing SourceState = "syncing" // it runs, and has not sent its whole initial state
	SourceSynced  SourceState = "synced"  // it runs, and sends changes
	SourceFailed  SourceState = "failed"  // it ended with an error, and is started again after a while
	SourceEnded   SourceState = "ended"   // it has nothing more to send
	SourceRemoved SourceState = "removed" // it was removed, and its groups are held for a while
)

var sourceStates = []SourceState{SourceSyncing, SourceSynced, SourceFailed, SourceEnded, SourceRemoved}

// SourceStatus is the state of a source, with its errors.
type SourceStatus struct {
	Name      string      `json:"name"`
	State     SourceState `json:"state"`
	Late      bool        `json:"late,omitempty"`             // it never synced within its deadline: discovery is ready without it, unless it is awaited
	Objects   int         `json:"objects"`                    // its services and objects that are served
	Changed   time.Time   `json:"changed,omitzero"`           // when it last sent a change
	Restarts  int         `json:"restarts"`                   // after errors
	Error     string      `json:"error,omitempty"`            // the last one
	ErrorTime time.Time   `json:"errorTime,omitzero"`         // when that was
	Malformed []string    `json:"malformed,omitempty"`        // records that cannot be read: key, and reason
	Unread    []string    `json:"unread,omitempty"`           // parts that cannot be read: name, and reason
	Shadowed  []string    `json:"shadowed,omitempty"`         // secrets that are not served, since another source has one of that name
	Withheld  int         `json:"withheldHosts,omitempty"`    // that may be those of a source that has never synced
	Unknown   []string    `json:"unknownSources,omitempty"`   // for which they wait
	Stranded  int         `json:"strandedPolicies,omitempty"` // policies that count though the source, which is left without any object, no longer has them
	Held      int         `json:"heldGroups,omitempty"`       // groups that the source no longer has, or has less of, and that are still served
	Lost      string      `json:"lost,omitempty"`             // what they are of all that it had, such as "9 of 10 hosts"
	Since     time.Time   `json:"since,omitzero"`             // when they were gone
	Until     time.Time   `json:"until,omitzero"`             // when they are removed, unless an operator releases them before
	Required  bool        `json:"required,omitempty"`         // discovery does not become ready without it
	Awaited   bool        `json:"awaited,omitempty"`          // discovery is not ready, since it waits for it

	Lacking      bool      `json:"lacking,omitempty"`     // nothing is known of it: proxies that come back keep what they have
	LackingUntil time.Time `json:"lackingUntil,omitzero"` // when that ends without it; zero for never

	Remembered   int       `json:"rememberedGroups,omitempty"` // groups of before the start that it has not sent again, and that are served
	RememberedAt time.Time `json:"rememberedAt,omitzero"`      // when it had them; zero once it is whole
	Age          string    `json:"rememberedAge,omitempty"`    // how old they were at the start, such as "12m0s"
}

// hold adds what a source itself holds to what is held of it.
func (s *SourceStatus) hold(lost string, groups int, since, until time.Time) {
	if s.Held > 0 {
		lost = s.Lost + ", " + lost
		if s.Since.Before(since) {
			since = s.Since
		}
		if s.Until.After(until) {
			until = s.Until
		}
	}
	s.Held, s.Lost, s.Since, s.Until = s.Held+groups, lost, since, until
}

// maxNamed is how many malformed records Lines names.
const maxNamed = 10

// Lines returns a line for each fault of the source.
func (s SourceStatus) Lines() []string {
	var out []string
	add := func(format string, args ...any) {
		out = append(out, "source "+s.Name+": "+printable(fmt.Sprintf(format, args...)))
	}
	switch {
	case s.Late && s.Awaited:
		add("it has not synced within its deadline, and discovery is not ready without it%s", s.reason())
	case s.Late && !s.RememberedAt.IsZero():
		add("it has not synced within its deadline, what it had before the start is served%s", s.reason())
	case s.Late && s.Lacking:
		add("it has not synced within its deadline, discovery is ready without it%s; %s", s.reason(), s.lacking())
	case s.Late:
		add("it has not synced within its deadline, discovery is ready without it%s", s.reason())
	case s.State == SourceSyncing:
		add("it has not synced yet%s", s.reason())
	case s.State == SourceFailed:
		add("it failed at %s and is started again, its last groups are served%s", clock(s.ErrorTime), s.reason())
	}
	if s.Lacking && !s.Late {
		add("%s", s.lacking())
	}
	if !s.RememberedAt.IsZero() {
		add("%d groups are from before the start, of %s, then %s old: they stay until it is whole", s.Remembered, clock(s.RememberedAt), s.Age)
	}
	for i, part := range s.Unread {
		if i == maxNamed {
			add("%d more parts cannot be read: see /debug/sources", len(s.Unread)-maxNamed)
			break
		}
		add("a part cannot be read, what it had of it is not removed: %s", part)
	}
	if s.Awaited && len(s.Unread) > 0 {
		add("discovery is not ready without that part: nobody knows what proxies had of it")
	}
	for i, record := range s.Malformed {
		if i == maxNamed {
			add("%d more malformed records: see /debug/sources", len(s.Malformed)-maxNamed)
			break
		}
		add("malformed: %s", record)
	}
	for i, secret := range s.Shadowed {
		if i == maxNamed {
			add("%d more secrets are not served: see /debug/sources", len(s.Shadowed)-maxNamed)
			break
		}
		add("%s", secret)
	}
	if s.Withheld > 0 {
		add("%d of its hosts are not served until %s has synced once, for they may be hosts of that", s.Withheld, strings.Join(s.Unknown, " and "))
	}
	if s.Stranded > 0 {
		add("it was left without any object: %d policies of it count until they are back, or until `%s`", s.Stranded, releaseCommand(s.Name))
	}
	if s.Held > 0 {
		add("%s are gone at once, since %s: %d groups are held until %s, or until `%s`", s.Lost, clock(s.Since), s.Held, clock(s.Until), releaseCommand(s.Name))
	}
	return out
}

// lacking says what becomes of proxies while nothing is known of the source.
func (s SourceStatus) lacking() string {
	until := ""
	if !s.LackingUntil.IsZero() {
		until = ", until " + clock(s.LackingUntil)
	}
	return fmt.Sprintf("proxies that come back keep what they have until it is whole%s, or until `%s`", until, releaseCommand(s.Name))
}

// releaseCommand is what ends the hold of a source.
func releaseCommand(name string) string { return "discovery release " + name }

// maxLine is how many bytes of a fault a line has.
const maxLine = 2000

// printable returns a text without control characters, which could forge lines or move the cursor of a terminal: faults
// repeat what a registry has sent.
func printable(text string) string {
	if len(text) > maxLine {
		text = text[:maxLine] + "…"
	}
	var out strings.Builder
	for _, r := range text {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			quoted := strconv.QuoteRune(r)
			out.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

// reason is the last error, as the end of a line.
func (s SourceStatus) reason() string {
	if s.Error == "" {
		return ""
	}
	return ": " + s.Error
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func perSource(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("pilotlight_source_"+name, help, append([]string{"source"}, labels...), nil)
}

var (
	sourceState     = perSource("state", "1 for the state that a source is in: syncing, synced, failed, ended, removed.", "state")
	sourceLate      = perSource("late", "1 while discovery goes on without a source that has not synced within its deadline.")
	sourceObjects   = perSource("objects", "Services and objects that are served of a source.")
	sourceAwaited   = perSource("awaited", "1 while discovery is not ready since a source that it requires is missing, or a part of it.")
	sourceUnread    = perSource("unread_parts", "Parts of a source, such as files or kinds of objects, that cannot be read: see /debug/sources.")
	sourceMalformed = perSource("malformed_records", "Records of a source that cannot be read: see /debug/sources.")
	sourceHeld      = perSource("held_groups", "Groups that a source no longer has, served for a while since most of the mesh went at once.")
	sourceLacking   = perSource("lacking", "1 while nothing is known of a source, and proxies that come back keep what they have.")
	sourceRecalled  = perSource("remembered_groups", "Groups of before the start that a source has not sent again, and that are served.")
	sourceRecallAt  = perSource("remembered_timestamp_seconds", "When a source had what is served of before the start; absent once it is whole.")
	sourceRestarts  = perSource("restarts_total", "Starts of a source after an error.")
	sourceChanged   = perSource("last_change_timestamp_seconds", "When a source last sent a change; absent before that.")
	sourceFailed    = perSource("last_error_timestamp_seconds", "When a source last failed; absent before that.")
)

// Describe sends nothing: the sources may change.
func (s *Server) Describe(chan<- *prometheus.Desc) {}

// Collect sends the status of each source.
func (s *Server) Collect(out chan<- prometheus.Metric) {
	for _, now := range s.Statuses() {
		emit := func(what *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(what, kind, value, append([]string{now.Name}, labels...)...)
		}
		for _, state := range sourceStates {
			emit(sourceState, prometheus.GaugeValue, number(state == now.State), string(state))
		}
		emit(sourceLate, prometheus.GaugeValue, number(now.Late && !now.Awaited))
		emit(sourceAwaited, prometheus.GaugeValue, number(now.Awaited))
		emit(sourceUnread, prometheus.GaugeValue, float64(len(now.Unread)))
		emit(sourceObjects, prometheus.GaugeValue, float64(now.Objects))
		emit(sourceMalformed, prometheus.GaugeValue, float64(len(now.Malformed)))
		emit(sourceHeld, prometheus.GaugeValue, float64(now.Held))
		emit(sourceLacking, prometheus.GaugeValue, number(now.Lacking))
		emit(sourceRecalled, prometheus.GaugeValue, float64(now.Remembered))
		if !now.RememberedAt.IsZero() {
			emit(sourceRecallAt, prometheus.GaugeValue, float64(now.RememberedAt.UnixMilli())/1000)
		}
		emit(sourceRestarts, prometheus.CounterValue, float64(now.Restarts))
		if !now.Changed.IsZero() {
			emit(sourceChanged, prometheus.GaugeValue, float64(now.Changed.UnixMilli())/1000)
		}
		if !now.ErrorTime.IsZero() {
			emit(sourceFailed, prometheus.GaugeValue, float64(now.ErrorTime.UnixMilli())/1000)
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
