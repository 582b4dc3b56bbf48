// Package footprint reduces an agent's memory and wake-ups once its Envoy serves. It then idles beside a workload for
// weeks, with thousands of others. During a start there is no time for this work.
//
//	Shrink ── collector: eager, memory given back        its heap is mostly garbage of probes
//	       ── processors: one                            a second one is only woken to look for work that is not there
//	       ── timers: 5 ms late at most                  wake-ups that are close together become one
//	       ── pages of the program's own text: dropped   the kernel reads back what runs again, from its cache
//
// It knows one fact about Envoy: its threads need exact timers, and a forked process inherits the timer slack of the thread that
// forks it.
package footprint
