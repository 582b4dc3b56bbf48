// Package lab starts the real parts on loopback, for tests and benchmarks: our binaries, Envoy, the example's
// services. It knows how to start, watch, ask and end a process, and nothing of what a test wants to show.
//
// Every process is in a group of its own, writes its output to a file in its directory, and is ended by its pid.
package lab
