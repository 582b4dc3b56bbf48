// Package client asks an agent over HTTP, as a command of the same pod or host does: its status port, and its front of
// Envoy's admin.
//
//	Client ──▶ GET /healthz/ready?verbose ──▶ nil: ready, or the reason, one of:
//	                                          no listener │ no answer in time │ no agent │ which conditions fail
//	       ──▶ GET /status                ──▶ Status
//	       ──▶ POST /quitquitquit
//	Patience.Until ──▶ asks again, quickly at first, until there is no complaint, or patience ends
//
// It knows no flag but by name, prints nothing, and never decides to go on without an answer.
package client
