package consul

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/model"
)

const (
	lists   = 3 // blocking queries
	workers = 8 // that read services at once

	wait = time.Minute            // of a blocking query; Consul adds up to a sixteenth
	pace = 250 * time.Millisecond // between an answer of a list and the request after the next
	step = 10 * time.Millisecond  // between two looks at a round
)

// Source sends the services of a Consul. Only one Run may be active at a time.
type Source struct {
	Config
	Log *slog.Logger

	wait, silence, keep time.Duration // instead of wait, askTimeout and keep, if not 0

	sent map[string]model.Group // by the run before
}

// OpenRegistry marks it as a registry in which anybody may write.
func (s *Source) OpenRegistry() {}

// Run sends updates until ctx is done or Consul fails. The next run keeps groups of the last one for a while if Consul
// lacks them.
func (s *Source) Run(ctx context.Context, updates chan<- model.Update) error {
	client, idle, err := s.client()
	if err != nil {
		return err
	}
	defer idle()
	r := &run{
		spot: s.spot(), log: s.Log, ask: asker{client, s.Config, cmp.Or(s.silence, askTimeout)}, wait: cmp.Or(s.wait, wait),
		work: make(chan string), events: make(chan func(now time.Time)), view: newView(), todo: newQueue(), missing: names{},
		sent: map[string]model.Group{}, outbox: map[string]model.Group{}, meshes: names{},
		lacking: lacking{before: s.sent, kept: names{}}, keep: cmp.Or(s.keep, keep),
	}
	defer func() { s.sent = r.lacking.remember(r.sent, r.synced) }()
	g, inner := errgroup.WithContext(ctx)
	g.Go(func() error { return follow(inner, r, r.ask.services, r.catalogue) })
	g.Go(func() error { return follow(inner, r, r.ask.checks, r.checks) })
	g.Go(func() error { return follow(inner, r, r.ask.nodes, r.nodes) })
	for range workers {
		g.Go(func() error { return r.fetch(inner) })
	}
	g.Go(func() error { return r.loop(inner, updates) })
	if err := g.Wait(); ctx.Err() == nil {
		return err
	}
	return nil // it was stopped
}

// run is one run of a Source. Only loop uses the fields below events.
type run struct {
	spot   spot
	log    *slog.Logger
	ask    asker
	wait   time.Duration // of a blocking query
	work   chan string   // names of services to read
	events chan func(now time.Time)

	view    *view
	todo    *queue
	rounds  rounds
	round   []string  // the services that the present round has not read yet
	began   time.Time // the present round; zero for none
	heard   int       // how many of the lists have answered
	missing names     // services of the first catalogue that were not read yet
	synced  bool
	sent    map[string]model.Group
	outbox  map[string]model.Group
	meshes  names // services of Consul's own mesh, which are left out
	partial bool  // it was logged that the token hides services
	lacking lacking
	keep    time.Duration
}

// answer holds the properties of one answer of a list.
type answer struct {
	index uint64
	first bool // of the run
	lost  bool // the index went backwards
}

// follow requests a list repeatedly; each request waits until the list has changed.
func follow[T any](ctx context.Context, r *run, ask func(context.Context, question) (T, reply, error), handle func(T, answer, reply, time.Time)) error {
	var index uint64
	var before time.Time // time of the last answer
	var asked string     // the token of the last request
	for first := true; ; first = false {
		token, err := r.ask.token()
		if err != nil {
			return err
		}
		if token != asked {
			index, asked = 0, token // another token may see other services in the same lists
		}
		limited, cancel := context.WithTimeout(ctx, r.wait+r.wait/16+r.ask.silence)
		list, meta, err := ask(limited, question{index, r.wait})
		cancel()
		if err != nil {
			return err
		}
		next, moved, lost := nextIndex(index, meta.index)
		if moved {
			a := answer{meta.index, first, lost}
			select {
			case r.events <- func(now time.Time) { handle(list, a, meta, now) }:
			case <-ctx.Done():
				return nil
			}
		}
		index = next
		now := time.Now()
		soonest := before.Add(pace)
		before = now
		select {
		case <-time.After(soonest.Sub(now)): // no wait if the answer took long
		case <-ctx.Done():
			return nil
		}
	}
}

// nextIndex returns the index for the next request. got is the index of the answer, last that of its request, which is
// 0 for a request that did not wait. An index that goes backwards is of other data, such as a restored snapshot: the
// next request does not wait.
func nextIndex(last, got uint64) (next uint64, moved, lost bool) {
	if got < last {
		return 0, true, true
	}
	return got, got != last, false
}

// fetch reads the services whose names it receives.
func (r *run) fetch(ctx context.Context) error {
	for {
		var name string
		select {
		case name = <-r.work:
		case <-ctx.Done():
			return nil
		}
		var entries []*serviceEntry
		if hostName.MatchString(strings.ToLower(name)) { // no other name is served, and a path such as ".." leads elsewhere
			var err error
			if entries, err = r.ask.instances(ctx, name); err != nil {
				return err
			}
		}
		select {
		case r.events <- func(time.Time) { r.read(name, entries) }:
		case <-ctx.Done():
			return nil
		}
	}
}

// loop owns the state of the run.
func (r *run) loop(ctx context.Context, updates chan<- model.Update) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		r.look(now)
		timer.Reset(min(r.tick(now), r.patience(now)))
		work, name := r.next()
		var out chan<- model.Update
		update := model.Update{Groups: r.outbox, Synced: true}
		if r.ready() {
			out = updates
		}
		select {
		case event := <-r.events:
			event(time.Now())
		case work <- name:
			r.todo.begin(name)
		case out <- update:
			r.outbox, r.synced = map[string]model.Group{}, true
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// ready reports whether there is something to send: first everything, then changes.
func (r *run) ready() bool {
	if !r.synced {
		return r.heard == lists && len(r.missing) == 0
	}
	return len(r.outbox) > 0
}

// look keeps the groups that Consul lacks, and removes them when the time is over.
func (r *run) look(now time.Time) {
	if !r.synced && r.ready() && r.lacking.until.IsZero() {
		r.lacking.until = now.Add(r.keep)
		for name := range r.lacking.before {
			if _, known := r.sent[name]; !known {
				r.send(name, model.Group{})
			}
		}
	}
	for _, name := range r.lacking.expire(now) {
		r.send(name, model.Group{})
	}
}

// patience returns how long lacking groups are still kept.
func (r *run) patience(now time.Time) time.Duration {
	if r.lacking.until.IsZero() {
		return wait
	}
	return max(0, r.lacking.until.Sub(now))
}

// next returns a service to read, and the channel for it, nil for none. Nothing is read before every list has answered:
// one of the lists then names any change after a service was read.
func (r *run) next() (chan<- string, string) {
	name, ok := r.todo.next()
	if !ok || r.heard < lists {
		return nil, ""
	}
	return r.work, name
}

// tick performs a step of a round if one is due, and returns the time until the next step.
func (r *run) tick(now time.Time) time.Duration {
	if !r.synced {
		return wait
	}
	if r.began.IsZero() {
		due := r.rounds.due()
		if due.IsZero() {
			return wait
		}
		if now.Before(due) {
			return due.Sub(now)
		}
		r.began, r.round = now, slices.Sorted(maps.Keys(r.view.tags))
	}
	if len(r.round) == 0 && r.todo.empty() {
		r.rounds.done(r.began, now)
		r.began = time.Time{}
		return step
	}
	for len(r.round) > 0 && r.todo.len() < 2*workers { // services that a list has named are read first
		r.todo.add(names{r.round[0]: true})
		r.round = r.round[1:]
	}
	return step
}

func (r *run) catalogue(list map[string][]string, a answer, meta reply, now time.Time) {
	r.note(a, now)
	if !a.first && !a.lost {
		r.rounds.moved(a.index, now)
	}
	if meta.filtered && !r.partial {
		r.partial = true
		r.log.Warn("Consul's token hides services, which are not served", "services", len(list))
	}
	changed, gone := r.view.services(list)
	if a.first {
		maps.Copy(r.missing, changed)
	}
	r.todo.add(changed)
	r.todo.drop(gone)
	for name := range gone {
		delete(r.missing, name)
		r.send(name, model.Group{})
	}
}

func (r *run) checks(list healthChecks, a answer, _ reply, now time.Time) {
	r.note(a, now)
	changed := r.view.known(r.view.state(list))
	if len(changed) > 0 {
		r.rounds.named(a.index)
	}
	r.todo.add(changed)
}

func (r *run) nodes(list []*nodeEntry, a answer, _ reply, now time.Time) {
	r.note(a, now)
	r.todo.add(r.view.known(r.view.list(list)))
}

func (r *run) note(a answer, now time.Time) {
	if a.first {
		r.heard++
	}
	if a.lost {
		r.rounds.lost(now)
	}
}

// read applies the answer for a service.
func (r *run) read(name string, entries []*serviceEntry) {
	r.todo.end(name)
	if _, known := r.view.tags[name]; !known {
		return // it was removed meanwhile
	}
	delete(r.missing, name)
	r.view.read(name, entries)
	for _, e := range entries {
		if e != nil && e.Service != nil {
			r.rounds.named(e.Service.ModifyIndex)
		}
	}
	if len(entries) > 0 && len(inOrder(entries)) == 0 && !r.meshes[name] {
		r.meshes[name] = true
		r.log.Info("not served: a proxy or gateway of Consul's own mesh", "service", name)
	}
	r.send(name, groupOf(r.spot, name, entries))
}

// send puts a group into the next update, unless the same was sent.
func (r *run) send(name string, g model.Group) {
	g = r.lacking.instead(name, g)
	if reflect.DeepEqual(g, r.sent[name]) {
		return
	}
	r.outbox[name] = g
	if r.sent[name] = g; g.Empty() {
		delete(r.sent, name)
	}
}
