package heap

import "runtime/debug"

// room is GOGC of a process that ends with its answer, in percent: what it leaves to the end costs nobody.
const room = 300

// Brief lets the heap of a process that ends with its answer grow, until stop is called. It does not if GOGC is set in the environment.
func Brief(getenv func(string) string) (stop func()) {
	if getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(room)
	return func() { debug.SetGCPercent(before) }
}
