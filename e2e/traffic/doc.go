// Package traffic holds the tests of traffic in a mesh: requests through real Envoys that our discovery configures. They
// show routes, gateways, TLS, balancing, undeclared ports, interception and traces, on loopback and without root. Most tests start
// Envoy without an agent, since the translation is what they show.
//
// It leaves to e2e/lab how programs are started, to e2e/ads how configuration gets to Envoy, and to e2e/wire clients that are
// not Envoy.
package traffic
