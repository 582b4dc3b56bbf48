// Package hotrestart speaks Envoy's hot-restart protocol from outside: it draws a base-id, repairs and removes what Envoy
// leaves in shared memory, and sends and answers the messages of Envoys that hand over to each other.
//
//	parent ◀── PassListenSocket, ShutdownAdmin, DrainListeners, Terminate ── newcomer
//	   ╎                                                                        │
//	Rescue: answers in place of a parent that has died, or must not be ended ◀──┘
//
// Envoys that share a base-id are a family: their epochs follow each other, and use one segment of shared memory and the
// same sockets. The package starts no Envoy and does not know which of them runs: agent/envoy says whose place a Rescue takes.
// The facts are of Envoy 1.40, and comments cite them.
package hotrestart
