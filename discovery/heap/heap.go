package heap

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// ease is how far the heap may grow, in bytes, before garbage is worth the work.
	ease = 96 << 20
	// usual is the runtime's own GOGC.
	usual = 100
	// least is what the runtime takes a smaller heap for, in bytes.
	least = 4 << 20
)

// percent returns the GOGC by which a heap is collected at ease, or at GOGC=100 where that is later. Bytes live, and
// roots, which are stacks and globals, are as the last collection found them: the runtime's goal is
// live + (live + roots) × GOGC/100, but not below 4 MiB × GOGC/100.
func percent(live, roots uint64) int {
	if live >= ease {
		return usual
	}
	return max(usual, int((ease-live)*100/max(live+roots, least)))
}

// Pace keeps GOGC at what fits the heap, and gives back what a burst leaves, until stop is called; it leaves both alone
// where GOGC is set in the environment.
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

// pacer sets GOGC after each collection.
type pacer struct {
	mu      sync.Mutex
	found   []metrics.Sample // live, stacks, globals
	before  int              // GOGC
	stopped bool
}

// cycle is garbage from the start, so that a collection's end is the end of one. With a pointer in it, it has no
// neighbours that could keep it.
type cycle struct{ _ *cycle }

// set returns the last GOGC.
func (p *pacer) set() int {
	metrics.Read(p.found)
	last := debug.SetGCPercent(percent(p.found[0].Value.Uint64(), p.found[1].Value.Uint64()+p.found[2].Value.Uint64()))
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
