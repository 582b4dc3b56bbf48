// Package lab starts the real parts on loopback, for tests and benchmarks: our binaries, Envoy, the example's
// services. It starts, watches, asks and ends processes, and leaves every expectation to the tests.
//
// Each process has a process group of its own, writes its output to a file in its directory, and is ended by its pid.
package lab
