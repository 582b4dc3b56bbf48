// Package heap sets how far the discovery server's heap may grow before it is collected.
//
//	a collection ends ─▶ live heap, roots ─▶ percent (pure) ─▶ GOGC
//
//	heap at the next collection
//	       │               _-- live + √(48 MiB × live)
//	       │            _-
//	96 MiB ┼───────────-
//	       │
//	       └───────────┬──▶ live heap
//	                48 MiB
//
//	no work for 5 s, and 16 MiB or more beyond the live heap ─▶ due (pure) ─▶ memory returned to the system
//
// The first collection comes at 128 MiB, if the heap grows so far: reading a mesh and configuring a thousand proxies
// needs nearly as much. The first 256 MiB lie in huge pages if the system gives them on request.
//
// A server that has just started has a small heap that grows fast: under Go's rule it is collected at 24, 40, 60 and 90
// MiB while a thousand proxies wait. A large heap may grow to twice its size under Go's rule, and making a hundred
// views of a mesh produces so much garbage; here 140 MiB may grow to 222. This package changes nothing for a server
// whose user sets GOGC. It leaves GOMEMLIMIT to the runtime, which collects at the lower of the two limits.
package heap
