package heap

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Pace adapts GOGC to the heap, and returns unused memory to the system after a burst, until stop is called. It does
// neither if GOGC is set in the environment.
func Pace(getenv func(string) string) (stop func()) {
	if getenv("GOGC") != "" {
		return func() {}
	}
	p := &pacer{found: []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}}
	p.before = p.set()
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		scavenge(end)
	}()
	return func() {
		close(end)
		<-done
		p.stop()
	}
}

// pacer sets GOGC at the start and after each collection.
type pacer struct {
	mu      sync.Mutex
	found   []metrics.Sample // live, stacks, globals
	before  int              // GOGC
	stopped bool
}

// cycle is an object that is garbage from the start, so that its cleanup runs after each collection. It holds a
// pointer, so that the runtime does not put it in one block with other small objects, which could keep it alive.
type cycle struct{ _ *cycle }

// set sets GOGC for the live heap, and returns the GOGC before.
func (p *pacer) set() int {
	metrics.Read(p.found)
	live, roots := p.found[0].Value.Uint64(), p.found[1].Value.Uint64()+p.found[2].Value.Uint64()
	last := debug.SetGCPercent(percent(live, roots))
	runtime.AddCleanup(&cycle{}, (*pacer).collected, p)
	return last
}

func (p *pacer) collected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped {
		p.set()
	}
}

func (p *pacer) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	debug.SetGCPercent(p.before)
}
