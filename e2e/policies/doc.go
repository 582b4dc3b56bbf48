// Package policies holds the tests of policies: the real Envoy judges the rows by which discovery/authz is tested, and a
// policy goes its whole way, from a file to the answer of a gateway or a sidecar. Its traffic is on loopback only.
package policies
