package heap

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
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

// room is GOGC of a process that ends with its answer, in percent: what it leaves to the end costs nobody.
const room = 300

// Brief lets the heap of a process that ends with its answer grow, until stop is called. It does not if GOGC is set in
// the environment.
func Brief(getenv func(string) string) (stop func()) {
	if getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(room)
	return func() { debug.SetGCPercent(before) }
}

const rest = 5 * time.Second // between two measurements of how busy the process is

// scavenge returns memory to the system after a burst of work. The runtime does so by itself only down to the size to
// which the heap may grow again, which is large here.
func scavenge(stop <-chan struct{}) {
	every := time.NewTicker(rest)
	defer every.Stop()
	last, given := look(), uint64(0)
	for {
		select {
		case <-stop:
			return
		case <-every.C:
		}
		now := look()
		if due(last, now, given) {
			debug.FreeOSMemory()
			now = look()
			given = now.allocated
		}
		last = now
	}
}

func look() spare {
	found := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(found)
	value := func(i int) uint64 { return found[i].Value.Uint64() }
	held := value(1) + value(2) + value(3)
	return spare{value(0), held - min(held, value(4))}
}
