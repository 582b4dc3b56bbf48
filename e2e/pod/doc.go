// Package pod holds the tests of what surrounds the agent in a pod: the redirection of its traffic, the image, process
// one, and the units of a virtual machine. They make network namespaces, mounts and control groups, so they want root
// and some tools of the system; make e2e-pod runs them. They carry the build tag pod: without it go test sees no test
// here, rather than tests that pass without a look. None is skipped: what a test lacks is named, and fails it.
//
//	client ── veth ──┐
//	                 fabric (a bridge) ── discovery
//	pod a: program (1000) + agent, Envoy (1337) ── veth ──┤
//	pod b: program (1000) + agent, Envoy (1337) ── veth ──┘
package pod
