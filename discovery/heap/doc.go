// Package heap sets how far the discovery server's heap may grow before it is collected.
//
//	a collection ends ─▶ live heap, roots ─▶ percent (pure) ─▶ GOGC
//
//	heap at the next collection
//	       │               _-- live + √(48 MiB × live)
//	       │            _-
//	96 MiB ┼           /
//	       │         /  2 × live
//	       └───────────┬──▶ live heap
//	                48 MiB
//
//	no work for 5 s, and 16 MiB or more beyond the live heap ─▶ due (pure) ─▶ memory returned to the system
//
// A large heap may grow to twice its size under Go's rule, and making a hundred views of a mesh produces so much garbage;
// here 140 MiB may grow to 222. A live heap below 48 MiB is collected by Go's own rule. This package changes nothing for a
// server whose user sets GOGC. It leaves GOMEMLIMIT to the runtime, which collects at the lower of the two limits.
package heap
