// Package agent is the supervisor: it keeps one Envoy alive, replaces it without a failed request when its configuration or
// binary changes, and reaps it when the work is done.
//
// The decision is next(state, event, now) → state, actions, in core.go and the files beside it: epoch.go (processes,
// and what follows their failures), handover.go (from one configuration to the next), stop.go (out of service, and the
// end). It is pure; the state is plain data. The loop in agent.go owns the state, waits for events and performs the
// actions. A process is behind the interface Proxy, whose real implementation is agent/envoy.
//
//	            start              live                     a newer one is live
//	(nothing) ────────▶ starting ────────▶ serving ──────────────────────────▶ draining
//	    ▲                  │                  │                                    │ ParentShutdown: by Envoy's
//	    │ retryAt, or      │ exited, late     │ exited, hung: a failure,           │ protocol, else KILL
//	    │ at once          ▼                  ▼ with any exit status               ▼
//	    └───────────── a parent serves? ── no: restart (budget, back-off)        gone
//	                       │ yes
//	                       ▼
//	                   roll back: KILL, repair, hot again, then side by side, then refused
//
//	handover:  configured ▶ quiet ▶ checking ▶ gated ▶ starting ▶ committed
//	                                   └▶ refused: the running epoch serves on
//
// An epoch is one process of Envoy. Its number is newest + 1, or 0 when no process runs. Each epoch has its own abortCh,
// which carries the orders of the core.
//
// The package imports no other package of this module. It does not read flags or files: its
// callers do, and make the bootstraps.
package agent
