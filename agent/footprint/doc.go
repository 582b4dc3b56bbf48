// Package footprint reduces an agent's memory and wake-ups once its Envoy serves. From then on the agent idles beside a
// workload for weeks, and a mesh has thousands of agents. The work is not done during a start, which it would delay.
//
//	Shrink ── collector: eager, memory given back        its heap is mostly garbage of probes
//	       ── processors: one                            a second one is woken only to search for work, and finds none
//	       ── timers: 5 ms late at most                  wake-ups that are close together become one
//	       ── pages of the program's own text: dropped   the kernel reads back what runs again, from its cache
//
// It depends on one fact about Envoy: Envoy's threads need exact timers, and a forked process inherits the timer slack
// of the thread that forks it.
package footprint
