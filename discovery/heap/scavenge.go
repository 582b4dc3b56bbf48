package heap

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	rest = 5 * time.Second // between two looks at how busy the process is
	idle = 4 << 20         // bytes that one allocates in that time which has nothing to do
	much = 16 << 20        // bytes that are worth a collection
)

// spare is what a look found, in bytes: what was allocated since the start, and what the heap holds beyond what lives.
type spare struct{ allocated, beyond uint64 }

// due reports whether to give memory back: when the process has nothing to do, and has used some since it last did so.
func due(last, now spare, given uint64) bool {
	return now.allocated-last.allocated < idle && now.allocated-given >= much && now.beyond >= much
}

// scavenge gives back what a burst of work has left. The runtime does so by itself only down to where the heap may grow
// again, and that is far here.
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
