package heap

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// ease is the size, in bytes, below which the heap is not collected.
	ease = 96 << 20
	// outset is the same for the first collection: the mesh is read, and all proxies connect at once.
	outset = 128 << 20
	// even is the live heap, in bytes, at which the room for garbage is as large as the live heap.
	even = ease / 2
	// fewest is the smallest GOGC, in percent: while as many bytes are allocated as the live heap has, it is scanned at
	// most four times.
	fewest = 25
	// least is the smallest heap that the runtime assumes, in bytes.
	least = 4 << 20
)

// size returns the size in bytes at which a heap with live bytes is collected: at ease, or, if that is more, at live
// plus room for garbage that grows with the square root of live. With that, the cost of a collection for each byte of
// garbage and the memory for the garbage grow alike (M. Kirisame et al., Optimal Heap Limits for Reducing Browser
// Memory Use, 2022).
func size(live uint64) uint64 {
	return max(ease, live+uint64(math.Sqrt(float64(live)*even)))
}

// percent returns the GOGC by which a heap is collected at a size. live and roots (stacks and globals), in bytes, are
// as the last collection found them: the runtime's goal is live + (live + roots) × GOGC/100, but not below 4 MiB ×
// GOGC/100.
func percent(size, live, roots uint64) int {
	if live >= size {
		return fewest
	}
	return max(fewest, int((size-live)*100/max(live+roots, least)))
}

// Pace adapts GOGC to the heap, and returns unused memory to the system after a burst, until stop is called. It does
// neither if GOGC is set in the environment.
func Pace(getenv func(string) string) (stop func()) {
	if getenv("GOGC") != "" {
		return func() {}
	}
	_ = askForHugePages(lent) // a system without huge pages uses small ones
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

// cycle is an object that is garbage from the start, so that its cleanup runs after each collection. It holds a
// pointer, so that the runtime does not put it in one block with other small objects, which could keep it alive.
type cycle struct{ _ *cycle }

// set sets GOGC so that the heap grows to a size, and returns the GOGC before.
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
