package heap

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

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
