// Package heap says how far the discovery server's heap may grow before it is collected.
//
//	a collection ends ─▶ what lives, the roots ─▶ percent (pure) ─▶ GOGC
//
//	heap at the next collection
//	       │               _-- what lives + √(48 MiB × what lives)
//	       │            _-
//	96 MiB ┼───────────-
//	       │
//	       └───────────┬──▶ what lives
//	                48 MiB
//
//	no work for 5 s, and 16 MB or more beyond what lives ─▶ due (pure) ─▶ given back to the system
//
// The first collection comes at 128 MiB, if the heap grows so far: that is nearly what it takes to read a mesh and to configure
// a thousand proxies. The first 256 MiB lie in huge pages where the system gives them to programs that ask.
//
// A server that has just started has a small heap that grows fast: under Go's rule it is collected at 24, 40, 60 and 90 MiB
// while a thousand proxies wait. A large heap may grow to twice its size under Go's rule, which a hundred views of a mesh have as
// garbage while they are made; here 140 MiB may grow to 222. This package changes nothing for a server whose user sets GOGC. It
// leaves GOMEMLIMIT to the runtime, which collects at the lower of the two limits.
package heap
