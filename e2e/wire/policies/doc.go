// Package policies compares discovery's rules of Envoy for policies with Istio's own, of the tables that test Istio's translation.
// It compares what they mean, by the real Envoy, which has both:
//
//	builder_test.go, *-in.yaml ──▶ discovery ──▶ filters ──▶ a listener ◀──┐
//	                 *-out.yaml ───────────────▶ filters ──▶ a listener ◀──┴── the same requests
//	                 conditions of both, one by one ──▶ a listener ◀────────── each value that rules name, and those near it
//
// The requests are made of the rules: first each value by itself, which shows what each condition says of it, and then whole
// requests that fulfil as many conditions of a rule as they can, and their neighbours. An answer has the status, which rule decided,
// what a dry run says, whether a record is wanted, and whether a provider was asked.
//
// The filters of RequestAuthentication, and the modes that PeerAuthentications give, are compared as they are.
//
// What no client can send is put into the request by a script in Envoy before the filters: a method or host with other characters,
// the claims of a token and other metadata. An address that a connection comes from is one of loopback that stands for it.
//
// Istio's files are read from its module when the test runs. The tests are behind the build tag wire and run by make e2e-wire. It leaves
// to e2e/policies what a policy does on its whole way, from a file to the answer of a gateway.
package policies
