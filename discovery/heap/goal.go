package heap

import "math"

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

const (
	idle = 4 << 20  // bytes that a process without work allocates in that time
	much = 16 << 20 // bytes that make a collection worthwhile
)

// spare is a measurement in bytes: memory allocated since the start, and memory that the heap holds beyond the live
// heap.
type spare struct{ allocated, beyond uint64 }

// due reports whether to return memory to the system: when the process has no work, and has allocated some since it
// last returned memory.
func due(last, now spare, given uint64) bool {
	return now.allocated-last.allocated < idle && now.allocated-given >= much && now.beyond >= much
}
