package file

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/watch"
)

// How long changes of files are collected. quiet is longer than the writes of one save.
const (
	quiet   = 50 * time.Millisecond
	ceiling = time.Second
	recheck = 30 * time.Second
)

// Watcher sends the files that may have changed: all of them at its start.
type Watcher interface {
	Run(ctx context.Context, changes chan<- watch.Changes) error
}

// Source sends the objects of the files at Path and below it, and then changes.
type Source struct {
	Path      string // a directory or a file
	WipeDelay time.Duration
	Watcher   Watcher
	Log       *slog.Logger

	// Manifests returns a converter of Kubernetes' own objects to services and workloads, a new one for each run; nil
	// leaves them out.
	Manifests func() Manifests

	status  atomic.Pointer[Status]
	release chan struct{} // has a value when an operator has asked; nil for never
}

// New returns the Source of a directory or file that the system watches. If more than half of all services, or all
// objects of a kind, disappear at once, they are still served for wipeDelay.
func New(path string, wipeDelay time.Duration, log *slog.Logger) *Source {
	files := watch.Tree{Path: path, Quiet: quiet, Ceiling: ceiling, Recheck: recheck, Log: log}
	return &Source{Path: path, WipeDelay: wipeDelay, Watcher: files, Log: log, release: make(chan struct{}, 1)}
}

// Status returns the state of the store.
func (s *Source) Status() Status {
	if now := s.status.Load(); now != nil {
		return *now
	}
	return Status{}
}

// Held returns what is served though it is in no file any more: a text such as "9 of 10 services", the number of objects, since
// when, and until when; "" and 0 for nothing.
func (s *Source) Held() (lost string, objects int, since, until time.Time) {
	now := s.Status()
	return now.Held, now.HeldNow, now.Since, now.Until
}

// Release removes what is in no file any more, though so much disappeared at once that it may be an accident.
func (s *Source) Release() {
	select {
	case s.release <- struct{}{}:
	default: // a nil channel is not ready
	}
}

// Run sends updates until ctx is done. Files with errors are logged and do not end it.
func (s *Source) Run(ctx context.Context, updates chan<- model.Update) error {
	g, ctx := errgroup.WithContext(ctx)
	changes := make(chan watch.Changes)
	g.Go(func() error { return s.Watcher.Run(ctx, changes) })
	g.Go(func() error { return s.follow(ctx, changes, updates) })
	return g.Wait()
}

func (s *Source) follow(ctx context.Context, changes <-chan watch.Changes, updates chan<- model.Update) error {
	st := newState(s.WipeDelay)
	timer := time.NewTimer(0)
	defer timer.Stop()
	timer.Stop()
	fault, synced, certain := "", false, false
	unsent, blind := map[string]model.Group{}, map[string]model.Group{}
	var manifests Manifests
	if s.Manifests != nil {
		manifests = s.Manifests()
	}
	for {
		var c watch.Changes
		select {
		case <-ctx.Done():
			return nil
		case c = <-changes:
		case <-s.release:
			st.held.asked = true
		case <-timer.C:
			c.Paths = st.waitingFiles()
		}
		l, err := st.scan(s.Path, c, time.Now())
		if err != nil {
			fault = s.unread(err, fault)
			continue
		}
		fault = ""
		out := st.apply(l, time.Now())
		out.problems = append(out.problems, applyManifests(manifests, out.groups)...)
		if logProblems(s.Log, out.problems); out.hold != "" {
			s.Log.Error("configuration is "+out.hold, "path", s.Path, "objects", len(st.missing))
		}
		if timer.Stop(); !out.wakeAt.IsZero() {
			timer.Reset(time.Until(out.wakeAt))
		}
		status := st.status()
		s.status.Store(&status)
		maps.Copy(unsent, out.groups)
		certain = certain || out.certain
		now := st.unreadableGroups()
		maps.Copy(unsent, compare(blind, now))
		blind = now
		if synced && len(unsent) == 0 || !synced && !st.unwritten() {
			continue
		}
		next := model.Update{Groups: unsent, Synced: true, Certain: certain, Emptied: st.emptied()}
		if !synced {
			s.logUnusable(status)
			next.Stands = st.refused()
		}
		s.logRead(len(st.objects), len(unsent))
		select {
		case updates <- next:
			unsent, synced, certain = map[string]model.Group{}, true, false
		case <-ctx.Done():
			return nil
		}
	}
}

// unread logs why the path cannot be read, unless it is the fault that is known, and returns the fault.
func (s *Source) unread(err error, known string) string {
	if err.Error() == known {
		return known
	}
	logProblems(s.Log, []config.Problem{{File: s.Path, Severity: config.Error, Message: err.Error()}})
	status := s.Status()
	status.Fault = err.Error()
	s.status.Store(&status)
	return err.Error()
}

// logRead logs what was read: how many objects there are, and how many have changed.
func (s *Source) logRead(objects, changed int) {
	s.Log.Info("configuration read", "path", s.Path, "objects", objects, "changed", changed)
	if objects == 0 {
		s.Log.Warn("configuration has no object: nothing is served from it", "path", s.Path, "want", "objects in files named *.yaml, *.yml or *.json")
	}
}

// logUnusable logs at the start which objects and files are of no use: of them this process knows no good form.
func (s *Source) logUnusable(now Status) {
	if missing := len(now.Refused) + len(now.Unread); missing > 0 {
		const most = 10
		names := append(slices.Clone(now.Refused), now.Unread...)
		s.Log.Error("configuration cannot be used, and no good form of it was read since the start", "count", missing, "first", names[:min(missing, most)])
	}
}

// logProblems logs problems.
func logProblems(log *slog.Logger, problems []config.Problem) {
	for _, p := range problems {
		p.Log(log)
	}
}

// Manifests makes groups of services and workloads from objects of Kubernetes' own kinds.
type Manifests interface {
	// Put adds an object for which config.IsManifest is true, and returns its problems.
	Put(o *model.Object) []config.Problem
	Delete(o model.Meta)
	// Changes returns the groups that have changed since the last call, and new problems between objects.
	Changes() (map[string]model.Group, []config.Problem)
}

// applyManifests replaces objects of Kubernetes by the groups that are made from them.
func applyManifests(m Manifests, groups map[string]model.Group) (problems []config.Problem) {
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		if !config.IsManifest(objectKind(key)) {
			continue
		}
		switch objects := groups[key].Objects; {
		case m == nil:
		case len(objects) > 0:
			problems = append(problems, m.Put(objects[0])...)
		default:
			m.Delete(metaOf(key))
		}
		delete(groups, key)
	}
	if m != nil {
		made, found := m.Changes()
		maps.Copy(groups, made)
		problems = append(problems, found...)
	}
	return problems
}

// metaOf reads the key of an object.
func metaOf(key string) model.Meta {
	kind, rest, _ := strings.Cut(key, "/")
	namespace, name, _ := strings.Cut(rest, "/")
	return model.Meta{Kind: kind, Namespace: namespace, Name: name}
}

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
		case f.neverRead:
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

var (
	objectsDesc = prometheus.NewDesc("pilotlight_config_objects", "Objects of the configuration files by kind, state and source: served; "+
		"last_good, served in the form before the one that is refused; refused, not served; held, gone from the files and served still.",
		[]string{"kind", "state", "source"}, nil)
	filesDesc = prometheus.NewDesc("pilotlight_config_files", "Files by state and source: unreadable, of which not all objects can be told; "+
		"waiting, which are being written.", []string{"state", "source"}, nil)
)

// Metrics counts objects and files of stores. It returns the stores that exist at the time of a scrape, by the names of
// their sources.
type Metrics func() map[string]*Source

// Describe sends the descriptions of the metrics that Collect sends.
func (m Metrics) Describe(out chan<- *prometheus.Desc) { out <- objectsDesc; out <- filesDesc }

// Collect counts objects by kind and state, and files by state. A kind that was never served or refused has no line.
func (m Metrics) Collect(out chan<- prometheus.Metric) {
	for source, store := range m() {
		now := store.Status()
		for kind, n := range now.Kinds {
			for state, n := range map[string]int{"served": n.Served, "last_good": n.LastGood, "refused": n.Refused, "held": n.Held} {
				out <- prometheus.MustNewConstMetric(objectsDesc, prometheus.GaugeValue, float64(n), kind, state, source)
			}
		}
		for state, n := range map[string]int{"unreadable": len(now.Lost), "waiting": len(now.Waiting)} {
			out <- prometheus.MustNewConstMetric(filesDesc, prometheus.GaugeValue, float64(n), state, source)
		}
	}
}
