// Package binding tells connections that an agent opens to discovery from those that its Envoy opens for other programs, with the
// same certificate. No configuration of Istio sets a cluster's ALPN, so the offered protocols show which one it is:
//
//	agent, enrolment, commands ── h2 or http/1.1, and one of ours ──▶ the certificate counts
//	a cluster of the mesh      ── istio, istio-h2 … ────────────────▶ refused
//	others                     ── neither ──────────────────────────▶ counts unless it is bound to agents
//
// A certificate that was requested over an agent's connection has an extension: it never counts on another connection. It is not
// critical, so every verifier of certificates takes it.
//
// It verifies no certificate, and does not decide which ones count: that is for the ports of discovery.
package binding
