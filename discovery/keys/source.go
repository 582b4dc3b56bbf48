package keys

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// asker fetches the keys of a URI.
type asker interface {
	Fetch(ctx context.Context, uri string) (string, error)
}

// Source sends the key sets of URIs, each as a group: the last good one, until a better one comes or nobody wants it.
// It syncs when each of the first URIs was asked once, or when firstRound is over; of one that was not to be had it
// sends the fault.
type Source struct {
	asker   asker
	fetches *prometheus.CounterVec // by result
	failing prometheus.Gauge

	mu     sync.Mutex
	wanted []model.KeyAddress
	known  bool // what is wanted
	news   chan struct{}
}

// firstRound is how long the mesh waits for the first keys: a silent server does not keep it from its proxies.
const firstRound = 3 * time.Second

// Groups that are none of a URI.
const (
	early  = ""            // before it is known what is wanted
	beyond = "(more URIs)" // of those that are not asked; its fault comes before those of URIs
)

// NewSource returns a Source that asks by a Fetcher.
func NewSource(f *Fetcher) *Source { return newSource(f) }

func newSource(a asker) *Source {
	s := &Source{asker: a, news: make(chan struct{}, 1)}
	s.fetches = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pilotlight_jwks_fetches_total", Help: "Questions for key sets of jwksUri, by result: ok or error.",
	}, []string{"result"})
	s.failing = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pilotlight_jwks_failing", Help: "Key sets of jwksUri whose last question failed.",
	})
	return s
}

// Describe and Collect make the Source a prometheus.Collector.
func (s *Source) Describe(to chan<- *prometheus.Desc) {
	s.fetches.Describe(to)
	s.failing.Describe(to)
}

// Collect sends the metrics.
func (s *Source) Collect(to chan<- prometheus.Metric) {
	s.fetches.Collect(to)
	s.failing.Collect(to)
}

// OpenRegistry says that no host of another source waits for this one: it has no hosts.
func (s *Source) OpenRegistry() {}

// Want sets the URIs whose keys are sent. Any goroutine may call it, before Run or while it runs.
func (s *Source) Want(all []model.KeyAddress) {
	s.mu.Lock()
	s.wanted, s.known = slices.Clone(all), true
	s.mu.Unlock()
	s.again()
}

func (s *Source) again() {
	select {
	case s.news <- struct{}{}:
	default: // there is news already
	}
}

func (s *Source) wants() ([]model.KeyAddress, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted, s.known
}

// Run sends key sets until ctx is done.
func (s *Source) Run(ctx context.Context, updates chan<- model.Update) error {
	r := run{Source: s, sent: map[string]bool{}, answers: make(chan answer, maxAsked)}
	defer r.questions.Wait()
	if _, known := s.wants(); !known && s.await(ctx, updates) != nil {
		return nil
	}
	s.again()
	for timer := time.NewTimer(0); ; {
		out := map[string]model.Group{}
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-s.news:
			r.want(out)
		case a := <-r.answers:
			r.learn(a, out)
		case <-timer.C:
		}
		timer.Reset(time.Until(r.ask(ctx)))
		first := !r.synced && r.whole()
		if r.synced = r.synced || first; len(out) == 0 && !first {
			continue
		}
		select {
		case updates <- model.Update{Groups: out, Synced: r.synced, Certain: true, Stands: r.stands(first)}:
		case <-ctx.Done():
		}
	}
}

// await waits until it is known what is wanted. Meanwhile nobody knows which keys there are, so that what an earlier
// run has kept stays.
func (s *Source) await(ctx context.Context, updates chan<- model.Update) error {
	for _, g := range []model.Group{{Faults: []string{"keys are asked for once policies are known"}, Unread: true}, {}} {
		select {
		case updates <- model.Update{Groups: map[string]model.Group{early: g}}:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !g.Unread {
			return nil
		}
		select {
		case <-s.news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// run is one run of a Source.
type run struct {
	*Source
	know      Cache
	sent      map[string]bool // groups, by name
	synced    bool
	until     time.Time // the end of the first round
	answers   chan answer
	questions sync.WaitGroup
}

type answer struct {
	Question
	keys string
	err  error
}

// want takes what is wanted now. What is no more is sent as gone.
func (r *run) want(out map[string]model.Group) {
	wanted, _ := r.wants()
	if r.know.Want(wanted, time.Now()); r.until.IsZero() {
		r.until = time.Now().Add(firstRound)
	}
	names := map[string]bool{}
	for uri := range r.know.of {
		names[model.KeySetName(uri)] = true
	}
	if refused := r.know.refused; len(refused) > 0 {
		names[beyond], r.sent[beyond] = true, true
		out[beyond] = model.Group{Faults: []string{tooMany(refused)}}
	}
	for _, name := range slices.Sorted(maps.Keys(r.sent)) {
		if !names[name] {
			delete(r.sent, name)
			out[name] = model.Group{}
		}
	}
}

// tooMany returns the fault of URIs that are not asked, with the namespaces that have most of them.
func tooMany(refused []model.KeyAddress) string {
	of := map[string]int{}
	for _, a := range refused {
		of[a.Namespace]++
	}
	namespaces := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })
	var most []string
	for _, n := range namespaces[:min(len(namespaces), 5)] {
		most = append(most, fmt.Sprintf("%d of namespace %s", of[n], n))
	}
	if len(namespaces) > len(most) {
		most = append(most, fmt.Sprintf("others of %d more namespaces", len(namespaces)-len(most)))
	}
	return fmt.Sprintf("%s: not fetched, such as %s: want at most %d URIs in the mesh, of which each namespace has an equal share",
		strings.Join(most, ", "), model.KeySetName(refused[0].URI), MaxURIs)
}

// ask begins the questions that are due, and returns when to come back, if no answer comes before.
func (r *run) ask(ctx context.Context) time.Time {
	for {
		uri, at := r.know.Next(time.Now())
		switch {
		case uri == "":
			at = time.Now().Add(refresh) // an answer comes, or other news
			fallthrough
		case time.Now().Before(at):
			if !r.synced && !r.until.IsZero() && r.until.Before(at) {
				at = r.until
			}
			return at
		}
		q := r.know.Ask(uri)
		r.questions.Go(func() {
			ctx, stop := context.WithTimeout(ctx, q.Timeout)
			defer stop()
			keys, err := r.asker.Fetch(ctx, q.URI)
			r.answers <- answer{q, keys, err} // there is room for each
		})
	}
}

// learn takes an answer, and adds what there is to send of it.
func (r *run) learn(a answer, out map[string]model.Group) {
	r.know.End(a.Question)
	of := r.know.of[a.URI]
	if of == nil {
		return // nobody wants it any more
	}
	was := of.fault
	changed := r.know.Learn(a.URI, a.keys, a.err, time.Now())
	result, group := "ok", model.Group{}
	switch {
	case a.err != nil:
		result, group.Faults, group.Fetched, changed = "error", []string{a.err.Error()}, true, of.fault != was
	case changed || was != "":
		group.Objects, changed = []*model.Object{model.KeySet(a.URI, a.keys)}, true
	}
	r.fetches.WithLabelValues(result).Inc()
	r.failing.Set(float64(len(r.know.Faults())))
	if changed {
		name := model.KeySetName(a.URI)
		out[name], r.sent[name] = group, true
	}
}

// stands returns the names of the key sets about which no question has ended when the source syncs: those of an earlier
// run stay.
func (r *run) stands(first bool) (out []string) {
	for uri, of := range r.know.of {
		if first && of.keys == "" && of.fault == "" {
			out = append(out, model.KeySetName(uri))
		}
	}
	return out
}

// whole reports whether each URI was asked once, or the time for that is over.
func (r *run) whole() bool {
	if r.until.IsZero() {
		return false
	}
	for _, of := range r.know.of {
		if of.keys == "" && of.fault == "" {
			return !time.Now().Before(r.until)
		}
	}
	return true
}
