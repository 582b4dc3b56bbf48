// Package wire tests pilotlight against software that it did not write, on the other side of the wire: gRPC's C core
// and gRPC for Java as clients and servers that are configured by xDS, Istio's pilot-agent against our discovery, our agent
// against istiod, and discovery and istiod as sources of each other's configuration; and by Istio's own tables of validation and its
// simulation, docs/design/030-istio-simulation.md. Its tables of policies are in e2e/wire/policies.
//
//	discovery ──▶ pilot-agent ──▶ Envoy        istiod ──▶ Envoy ◀── agent
//	    │
//	    └───────▶ gRPC in Python, in Java      istiod ──▶ discovery, discovery ──▶ istiod
//
// Prometheus scrapes agents and discovery, and answers what Flagger, Kiali, our dashboards and our alerts ask. SPIRE's agents serve certificates to
// Envoys of ours.
//
// Pebble, an ACME server, gives certificates to gateways.
//
// They are built and fetched by envoy-tools/fetch-peers, fetch-pebble, fetch-prometheus and fetch-spire; istio, java, pebble, python and spire pin
// their versions. The tests are behind
// the build tag wire and run by make e2e-wire. It leaves to e2e/traffic what Envoy makes of our configuration.
package wire
