// Package client sends HTTP requests to an agent in the same pod or host: to its status port, and to its front of
// Envoy's admin.
//
//	Client ──▶ GET /healthz/ready?verbose ──▶ nil: ready, or the reason, one of:
//	                                          no listener │ no answer in time │ no agent │ which conditions fail
//	       ──▶ GET /status                ──▶ Status
//	       ──▶ POST /quitquitquit, /drain
//	Patience.Until ──▶ repeats a request, quickly at first, until it succeeds, or until the limit
//
// It does not read flags, though its errors name the flag of a port. It does not print, and does not decide to go on
// without an answer.
package client
