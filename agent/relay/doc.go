// Package relay passes Envoy's delta ADS on to discovery, and answers from what is remembered while discovery is away:
// docs/design/032.
//
//	Envoy ──▶ stream ──────────── call ──▶ discovery
//	             │ no answer: refused, ended, or silent for 2 s
//	             ▼
//	          lastgood.Answers, and a probe of discovery ── it answers ──▶ the stream ends, Envoy comes back
//
// Messages are passed on as they are, in pieces: memory does not grow with them, and a peer that does not read stops the other
// one by HTTP/2's flow control. Envoys that have a whole configuration get nothing from memory: they serve on with what they have.
//
// It refuses every method but DeltaAggregatedResources.
package relay
