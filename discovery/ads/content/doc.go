// Package content has what discovery streams send, as values: resources that are encoded once, the resource sets that hold
// them, and the lists of names that clients ask for.
//
//	mesh ─ Views ─▶ Snapshot: a Set of each Kind ─▶ resource sets: common to many proxies, and a proxy's own
//	                                                  └▶ resources, each encoded once
//	names of a request ─ Interner ─▶ Names, one value for equal lists
//
//	a client's Set ──┐
//	the wanted Set ──┼─ Share ─▶ Update: lists with their bytes, which all streams send that have the same to tell
//	Names ───────────┘
//
// A Snapshot, a Set and all below it are immutable, and equal ones are mostly one value, so a pointer tells that nothing has
// changed. Views take over what the mesh before had too. Share has functions of these values with a cache beside each, for one
// generation: a difference is computed once for a thousand streams. The caches are bounded, for clients choose their keys.
//
// The package does not decide what a client is sent and when (package protocol does). It has no goroutine and no clock; its
// caches have mutexes, since all streams use them.
package content
