// Package pod holds the tests of what surrounds the agent in a pod: the redirection of its traffic, the image, process
// one, and the units of a virtual machine. They make network namespaces, mounts and control groups, so they need root
// and some tools of the system; make e2e-pod runs them. They have the build tag pod: without it go test finds no test
// here, instead of tests that pass without checking anything. None is skipped: a test that lacks a tool fails and names it.
// The package leaves to e2e/agent and e2e/traffic all that can be shown without root.
//
//	client ── veth ──┐
//	                 fabric (a bridge) ── discovery
//	pod a: program (1000) + agent, Envoy (1337) ── veth ──┤
//	pod b: program (1000) + agent, Envoy (1337) ── veth ──┘
package pod
