// Package status is the agent's HTTP: what it tells about itself, and the front of Envoy's admin.
//
//	:15020           ── Handler: /healthz/ready, /status, /metrics ──▶ Document: a copy of what is known
//	127.0.0.1:15000  ── Front: reads, and an allow list ──▶ Unix socket of the epoch that serves
//
// Envoy's admin has no authentication and can end the process, so it listens on a socket that only its owner may
// open, one per epoch. The front gives it the port that people and tools know. It refuses what would change Envoy
// behind the supervisor's back.
package status
