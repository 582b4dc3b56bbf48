package keys

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// asker fetches the keys of a URI.
type asker interface {
	Fetch(ctx context.Context, uri string) (string, error)
}

// Source sends the key sets of URIs, each as a group by its URI: the last good one, until a better one comes or nobody wants
// it. It syncs when each of the first URIs was asked once; of one that was not to be had it sends the fault.
type Source struct {
	asker   asker
	fetches *prometheus.CounterVec // by result
	failing prometheus.Gauge

	mu     sync.Mutex
	wanted []string
	known  bool // what is wanted
	news   chan struct{}
}

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

// Want sets the URIs whose keys are sent. Any goroutine may call it, before Run or while it runs.
func (s *Source) Want(uris []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted, s.known = slices.Clone(uris), true
	select {
	case s.news <- struct{}{}:
	default: // there is news already
	}
}

// Run sends key sets until ctx is done.
func (s *Source) Run(ctx context.Context, updates chan<- model.Update) error {
	k, sent, synced := &Knowledge{}, map[string]bool{}, false
	timer := time.NewTimer(0)
	defer timer.Stop()
	if wanted, is := s.wants(); is {
		k.Want(wanted, time.Now())
	} else if err := s.await(ctx, updates); err != nil {
		return nil
	}
	for {
		out := map[string]model.Group{}
		select {
		case <-ctx.Done():
			return nil
		case <-s.news:
			wanted, _ := s.wants()
			k.Want(wanted, time.Now())
			for _, uri := range slices.Sorted(maps.Keys(sent)) {
				if k.of[uri] == nil {
					delete(sent, uri)
					out[uri] = model.Group{}
				}
			}
		case <-timer.C:
			if uri, at := k.Next(); uri != "" && !time.Now().Before(at) {
				if group, news := s.ask(ctx, k, uri); news {
					out[uri], sent[uri] = group, true
				}
			}
		}
		_, at := k.Next()
		timer.Reset(max(0, time.Until(at)))
		if at.IsZero() {
			timer.Stop()
		}
		first := !synced && k.asked()
		if synced = synced || first; len(out) == 0 && !first {
			continue
		}
		select {
		case updates <- model.Update{Groups: out, Synced: synced, Certain: true}:
		case <-ctx.Done():
			return nil
		}
	}
}

// ask asks once, and returns what there is to send of it.
func (s *Source) ask(ctx context.Context, k *Knowledge, uri string) (group model.Group, news bool) {
	was := k.of[uri].fault
	set, err := s.asker.Fetch(ctx, uri)
	changed := k.Learn(uri, set, err, time.Now())
	result := "ok"
	if err != nil {
		result = "error"
	}
	s.fetches.WithLabelValues(result).Inc()
	s.failing.Set(float64(len(k.Faults())))
	switch {
	case err != nil:
		return model.Group{Faults: []string{err.Error()}}, err.Error() != was
	case !changed && was == "":
		return group, false
	}
	return model.Group{Objects: []*model.Object{model.KeySet(uri, set)}}, true
}

// await waits until it is known what is wanted. Meanwhile nobody knows which keys there are, so that what an earlier run has kept
// stays.
func (s *Source) await(ctx context.Context, updates chan<- model.Update) error {
	const part = ""
	for _, g := range []model.Group{{Faults: []string{"keys are asked for once policies are known"}, Unread: true}, {}} {
		select {
		case updates <- model.Update{Groups: map[string]model.Group{part: g}}:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !g.Unread {
			return nil
		}
		select {
		case <-s.news:
			s.news <- struct{}{}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *Source) wants() ([]string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted, s.known
}

// asked reports whether each URI was asked once.
func (k *Knowledge) asked() bool {
	for _, of := range k.of {
		if of.keys == "" && of.fault == "" {
			return false
		}
	}
	return true
}
