package heap

import "math"

const (
	// even is the live heap, in bytes, at which the room for garbage is as large as the live heap.
	even = 48 << 20
	// most is Go's own GOGC, in percent: below even the heap may grow to twice its live size.
	most = 100
	// fewest is the smallest GOGC, in percent: while as many bytes are allocated as the live heap has, it is scanned at
	// most four times.
	fewest = 25
)

// percent returns the GOGC by which a heap with live bytes may grow by room for garbage that grows with the square root
// of live, and by no more than it has. With that, the cost of a collection for each byte of garbage and the memory for
// the garbage grow alike (M. Kirisame et al., Optimal Heap Limits for Reducing Browser Memory Use, 2022). live and
// roots (stacks and globals), in bytes, are as the last collection found them: the runtime's goal is live + (live +
// roots) × GOGC/100.
func percent(live, roots uint64) int {
	if live <= even {
		return most
	}
	room := math.Sqrt(float64(live) * even)
	return min(most, max(fewest, int(room*100/float64(live+roots))))
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
