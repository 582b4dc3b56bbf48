// Package envoy runs the real Envoy as a child: its arguments, files, start, signals and last log lines, and a
// client of its admin. No other package starts an Envoy; package application starts the program beside
// it.
//
//	Run: bootstrap ─▶ slot/envoy-rev{epoch}.json (0600) ─▶ fork ─▶ watch: /proc, /ready ─▶ Live, Hung
//	                                                        │ abortCh: signals, drain ─▶ Idle
//	                                                        ▼
//	                                       reaped ─▶ files removed, family swept ─▶ Exit
//
//	Slot    a directory that one agent owns, and its record of the Envoys that it started
//	room    a directory for sockets, whose names nobody can guess
//	Admin   a client of one epoch's admin, with a connection for each request
//	Sends   whether a connection to the agent is Envoy's, by its socket: see package procnet
//
// It does not decide: package agent judges whether an exit was a failure, and what to do. Where the code relies on facts
// about Envoy 1.40, a comment cites them.
package envoy
