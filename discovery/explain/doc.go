// Package explain judges one request by the resources that a proxy was sent, as Envoy reads them, and says each step of its road:
//
//	request ─▶ listener ─▶ filter chain ─▶ virtual host ─▶ route ─▶ faults, CORS ─▶ cluster ─▶ endpoints
//	                                                         │ direct response, redirect, no route     │
//	                                                         ▼                                         ▼
//	               Outcomes: each with its share of such requests ◀─ policies ◀─ filter chain of the server's proxy
//
// It reads Envoy's messages alone, not the objects that they were made of, so its answers can be compared with a real Envoy. It
// does no I/O and knows no state of an Envoy: it refuses to guess whether a server answers, an endpoint is ejected, a circuit
// is open or a name resolves. Which object made a part is asked of discovery/xds.
package explain
