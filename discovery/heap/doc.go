// Package heap says how far the discovery server's heap may grow before it is collected.
//
//	a collection ends ─▶ what lives, the roots ─▶ percent (pure) ─▶ GOGC
//
//	heap at the next collection
//	       │                ╱ twice what lives, Go's own rule
//	96 MiB ┼───────────────╱
//	       │
//	       └───────────────┬──▶ what lives
//	                  about 40 MiB
//
// A server that starts has a small heap which grows fast: Go's rule collects it at 24, 40, 60 and 90 MiB while a thousand
// proxies wait. A large mesh is not touched by this, nor is a server whose user sets GOGC. GOMEMLIMIT needs no thought:
// the runtime collects at the lower of the two.
package heap
