// Package why turns what an Envoy counts into sentences about the requests that failed. It is pure.
//
//	/stats?filter=Filter ──▶ counters ─┬▶ Explain ──▶ Findings: flag, where, how often, a sentence, what to do
//	/clusters?filter=… ──▶ Clusters ───┘
//	                     Findings of two times ──▶ Since ──▶ what failed in between
//
// A finding has Envoy's response flag, which an access log shows too, or none where Envoy has none. Names of clusters are
// those of discovery (outbound|80|v1|reviews.default.svc.cluster.local) or of a bootstrap of the user's own; the remedy is
// in the words of the one or the other.
//
// Counters are kept by Envoy anyway, so requests pay nothing for this. They have no time and no request: of a TLS handshake
// they tell which check failed and not the peer's words, and of a request neither path nor client.
//
// It leaves to agent/envoy to query the admin, and to agent/status to decide who may read the answer. It takes any text from an Envoy, however long or wrong, and bounds
// what it returns.
package why
