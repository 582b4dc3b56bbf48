// Package agent is the supervisor: it keeps one Envoy alive until it is told to stop, and then sees it buried.
//
// The decision is core.go: next(state, event, now) → state, actions. It is pure; the state is plain data. The loop in
// agent.go owns the state, waits for events and performs the actions. A process is behind the interface Proxy, whose
// real implementation is agent/envoy.
//
//	              start                    live
//	(no epoch) ─────────▶ starting ──────────────────▶ serving
//	    ▲                     │                           │
//	    │ retryAt             │ exited, unasked: a failure, whatever its status
//	    └──── waiting ◀───────┴───────────────────────────┘
//	             │ budget spent, or Envoy refuses its configuration
//	             ▼
//	          finished ◀── every epoch reaped ── terminating: TERM, then KILL
//
// An epoch is one run of Envoy, numbered newest + 1, from 0 when none lives. Each epoch has its own abortCh, which
// carries the signals that the core wants sent.
//
// The package imports nothing of ours and refuses to know what a bootstrap, a flag or a file is.
package agent
