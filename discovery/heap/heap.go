package heap

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// ease is how far the heap may grow, in bytes, before garbage is worth the work.
	ease = 96 << 20
	// outset is that for the first time: the mesh is read, and all proxies connect at once.
	outset = 128 << 20
	// even is where what lives and the room for garbage are equal, in bytes.
	even = ease / 2
	// fewest is the smallest GOGC: what lives is looked at four times for each of its bytes that is allocated, not more often.
	fewest = 25
	// least is what the runtime takes a smaller heap for, in bytes.
	least = 4 << 20
)

// size is where a heap is collected, in bytes, of which so many live: at ease, or where that is more, after room for garbage that
// grows with the square root of what lives. With that, what a collection costs for each byte of garbage and what the garbage
// costs in memory grow alike (M. Kirisame et al., Optimal Heap Limits for Reducing Browser Memory Use, 2022).
func size(live uint64) uint64 {
	return max(ease, live+uint64(math.Sqrt(float64(live)*even)))
}

// percent returns the GOGC by which a heap is collected at a size. Bytes live, and roots, which are stacks and globals, are as the
// last collection found them: the runtime's goal is live + (live + roots) × GOGC/100, but not below 4 MiB × GOGC/100.
func percent(size, live, roots uint64) int {
	if live >= size {
		return fewest
	}
	return max(fewest, int((size-live)*100/max(live+roots, least)))
}

// Pace keeps GOGC at what fits the heap, and gives back what a burst leaves, until stop is called; it leaves both alone
// where GOGC is set in the environment.
func Pace(getenv func(string) string) (stop func()) {
	if getenv("GOGC") != "" {
		return func() {}
	}
	_ = askForHugePages(lent) // a system without them has small ones
	p := &pacer{found: []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}}
	p.before = p.set(func(uint64) uint64 { return outset })
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

// cycle is garbage from the start, so that a collection's end is the end of one. With a pointer in it, it has no
// neighbours that could keep it.
type cycle struct{ _ *cycle }

// set lets the heap grow to a size, and returns the last GOGC.
func (p *pacer) set(size func(live uint64) uint64) int {
	metrics.Read(p.found)
	live, roots := p.found[0].Value.Uint64(), p.found[1].Value.Uint64()+p.found[2].Value.Uint64()
	last := debug.SetGCPercent(percent(size(live), live, roots))
	runtime.AddCleanup(&cycle{}, (*pacer).collected, p)
	return last
}

func (p *pacer) collected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped {
		p.set(size)
	}
}

func (p *pacer) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	debug.SetGCPercent(p.before)
}
