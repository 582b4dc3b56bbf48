package content

import (
	"slices"
	"sync"
	"sync/atomic"
)

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
