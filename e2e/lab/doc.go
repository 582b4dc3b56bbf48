// Package lab starts the real parts on loopback, for tests and benchmarks: our binaries, Envoy, the example's
// services. It starts, watches and ends processes, and sends requests to them. The expectations are the tests' own.
//
//	Main     builds the programs for a package of tests, and finds Envoy
//	Lab      starts the programs: discovery, agents
//	World    discovery, backends in the test, and Envoys without an agent: for tests of the translation
//	Mesh     the example's services, each with its agent and Envoy
//	Netns    a network namespace, for tests that run as root
//
// A World or a Mesh ends its test where starting fails, and reports the responses that an Envoy has rejected.
//
// Each process has a process group of its own, writes its output to a file in its directory, and is ended by its pid.
// The package does not judge what a program answers: the tests do.
package lab
