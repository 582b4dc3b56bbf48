// Package health decides whether a proxy serves, and whether it hangs. It is pure: it computes a verdict from
// observations and times. Its only memory is a State, which is plain data.
//
//	Observation ──▶ State.Next(o, now) ──▶ State ──▶ Verdict: ready, degraded, seven conditions, hang
//
//	          answered                        2 s, CPU time stands still
//	serving ◀─────────── no answer ─────────────────────────────▶ silent: replace
//	   │                     │ 2 s, CPU time advances
//	   │ process stopped     └──────────▶ busy ── 60 s ─────────▶ replace
//	   └──────────────────────────────────────────────────────▶ stopped: replace
//
// An Envoy that is busy with a response of discovery, as the relay knows, has 10 minutes, and its readiness keeps its last word as long:
// its workers serve on.
//
// A condition becomes true at once. CDS and LDS stay received for the process's life, since any client may reset the
// counters. Envoy does not serve without the conditions process, admin and listeners: they become false at once, or after
// two seconds of silence. Files of certificates with a fault make the proxy degraded while Envoy holds a certificate from
// before that is valid; when it ends, or if Envoy holds none, the condition becomes false, five seconds after the fault
// began. An observation that is too old counts as no answer.
//
// After a rejected update Envoy serves on with the last good configuration, so the proxy is degraded, and ready. An
// exception is a first LDS of which no listener is accepted: then Envoy listens nowhere.
//
//	                     ready                              degraded
//	CDS, one bad of two  yes                                named, until an answer is accepted
//	CDS, all bad         yes: its listeners answer 503      named
//	LDS, one bad of two  yes                                named
//	LDS, all bad, first  no: ListenersBound has the reason  -
//	LDS, all bad, later  yes: the last good ones serve      named
//	a busy port          as a bad listener                  named: cannot bind
//	all inbound busy     no: ListenersBound names them      -
//	a shared port        no, where programs call Envoy      named: the process that listens there too
//
// Under the delta protocol an accepted answer does not show whether the resources rejected before are good now. Degraded
// stays until Envoy has accepted exactly those resources, or no longer has their earlier versions, which means that they
// were withdrawn. If Envoy never had a resource, a withdrawal of it is not visible: then degraded stays for the process's
// life, and its text adds that others were accepted since. Routes, endpoints and secrets have their own counters: their
// rejection ends with the next accepted update, or when their subscription ends, which takes as long as a listener's drain.
//
// The package observes nothing itself: agent/envoy observes the process and the admin, agent/cert the certificates. Some of
// Envoy's own stats mislead, and are not read: server.live and server.state lag, and one bad cluster keeps update_success
// at 0.
package health
