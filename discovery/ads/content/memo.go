package content

import (
	"maps"
	"slices"
	"sync"
)

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
