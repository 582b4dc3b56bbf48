package page

import "sync"

// Bell tells everybody who waits that something has changed. The zero value is ready.
type Bell struct {
	mu   sync.Mutex
	rung chan struct{} // nil while nobody waits
}

// Ring wakes who waits. It returns at once.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}

// Next is closed at the next Ring.
func (b *Bell) Next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}
