package content

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Each cache is bounded, so that hostile subscriptions cost little more than their own streams.
const (
	maxShared  = 1 << 13
	maxChosen  = 1 << 19 // names, in all selections and in the values made from them
	maxMerged  = 1 << 18 // names, of all subscriptions that grew
	maxDivided = 1 << 15 // kB, of route configurations with a refused part
)

// Share computes results from sets that streams need, each once for all streams: it is pure functions with a cache. It
// lives as long as a generation; a stream must not hold it longer than that.
type Share struct {
	Work *Work // the cost of its generation

	comparer
	merger
	chooser
	uniter
	referenceFinder
	hostDivider
	resumer
	answerer
}

// NewShare returns a share without results.
func NewShare(in *Interner) *Share {
	sh := &Share{Work: &Work{}}
	compare, merge := &sh.comparer, &sh.merger
	*compare = comparer{work: sh.Work}
	compare.changes.limit, compare.lessened.limit = maxChosen, maxChosen
	*merge = merger{Interner: in, work: sh.Work}
	merge.merged.limit, merge.lists.limit = maxMerged, maxMerged
	sh.chooser.comparer = compare
	sh.chooser.selections.limit, sh.chooser.kept.limit = maxChosen, maxChosen
	sh.uniter.comparer, sh.uniter.merger = compare, merge
	sh.uniter.unions.limit, sh.uniter.changed.limit, sh.uniter.missing.limit = maxShared, maxShared, maxChosen
	sh.referenceFinder.comparer, sh.referenceFinder.merger = compare, merge
	sh.referenceFinder.additions.limit, sh.referenceFinder.found.limit = maxShared, maxShared
	sh.hostDivider.hosts.limit = maxDivided
	sh.resumer.resumed.limit = maxChosen
	sh.answerer.comparer = compare
	sh.answerer.answered.limit = maxChosen
	return sh
}

// memo makes each value that it keeps once; other callers of the same key wait for it. Beyond the limit values are not
// kept.
type memo[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]func() V
	limit  int // of the sum of the costs of kept values; 0 for no limit
	cost   int
}

// peek returns the kept value of a key, else the zero value.
func (m *memo[K, V]) peek(key K) (none V) {
	m.mu.Lock()
	value, ok := m.values[key]
	m.mu.Unlock()
	if !ok {
		return none
	}
	return value()
}

// keys returns the keys of kept values.
func (m *memo[K, V]) keys() []K {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.values))
}

// all returns the kept values.
func (m *memo[K, V]) all() []V {
	m.mu.Lock()
	values := slices.Collect(maps.Values(m.values))
	m.mu.Unlock()
	out := make([]V, 0, len(values))
	for _, value := range values {
		out = append(out, value())
	}
	return out
}

// Get returns the value of a key. If it is not kept, it calls build; other callers of the key wait for that.
func (m *memo[K, V]) Get(key K, build func() V) V { return m.getFor(1, key, build) }

// getFor is get for a value of which the cost is not 1.
func (m *memo[K, V]) getFor(cost int, key K, build func() V) V {
	m.mu.Lock()
	value, ok := m.values[key]
	if !ok {
		value = sync.OnceValue(build)
		if m.values == nil {
			m.values = map[K]func() V{}
		}
		if m.limit == 0 || m.cost+cost <= m.limit {
			m.values[key] = value
			m.cost += cost
		}
	}
	m.mu.Unlock()
	return value()
}

type pair[T any] struct{ from, to T }

// Work counts the cost of a generation: outbound views, resources.
type Work struct {
	Rebuilt, Encoded tally
	Looked           atomic.Int64 // resources and names that were looked at one by one: compared, looked up, merged, encoded
}

// tally counts items and keeps the names of the first few.
type tally struct {
	mu    sync.Mutex
	count int64
	names []string
}

// maxNamed is how many names a tally keeps.
const maxNamed = 16

func (t *tally) add(of, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
	if len(t.names) < maxNamed {
		t.names = append(t.names, of+"/"+name)
	}
}

// Total returns the number of items.
func (t *tally) Total() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// First returns the names of the first few items.
func (t *tally) First() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.names)
}
