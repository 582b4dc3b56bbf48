// Package status is the agent's HTTP: now the front of Envoy's admin.
//
//	127.0.0.1:15000 ── Front: reads, and an allow list ──▶ Unix socket of the newest epoch
//
// Envoy's admin has no authentication and can end the process, so it listens on a socket that only its owner may
// open, one per epoch. The front gives it the port that people and tools know. It refuses what would change Envoy
// behind the supervisor's back.
package status
