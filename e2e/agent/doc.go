// Package agent holds the tests of the agent with a real Envoy: start, crash, hang, handover, drain, stop, status, metrics,
// certificates, bootstraps, wait and logs, with and without discovery, on loopback and without root. The tests that take long
// are behind the build tag long.
//
// It leaves to e2e/lab how programs are started, to e2e/traffic what Envoy makes of discovery's configuration, and to e2e/pod
// what needs root.
package agent
