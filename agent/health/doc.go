// Package health says whether a proxy serves, and whether it hangs. It is pure: observations and times go in, a
// verdict comes out, and all that it remembers is a State, which is plain data.
//
//	Observation ──▶ State.Next(o, now) ──▶ State ──▶ Verdict: ready, degraded, seven conditions, hang
//
//	          answered                        2 s, CPU time stands still
//	serving ◀─────────── no answer ─────────────────────────────▶ silent: replace
//	   │                     │ 2 s, CPU time advances
//	   │ process stopped     └──────────▶ busy ── 60 s ─────────▶ replace
//	   └──────────────────────────────────────────────────────▶ stopped: replace
//
// A condition is true at once. CDS and LDS stay received for the process's life, since any client may reset the counters.
// The conditions without which Envoy does not serve (process, admin, listeners) are false at once, or after the two seconds
// that make silence; certificates, without which Envoy serves on, five seconds after their fault began. An observation that
// has grown old counts as no answer.
//
// After a rejected update the last good configuration serves on, so the proxy is degraded, and ready. An exception is a
// first LDS of which no listener is accepted: then Envoy listens nowhere.
//
//	                     ready                              degraded
//	CDS, one bad of two  yes                                named, until an answer is accepted
//	CDS, all bad         yes: its listeners answer 503      named
//	LDS, one bad of two  yes                                named
//	LDS, all bad, first  no: ListenersBound says why        -
//	LDS, all bad, later  yes: the last good ones serve      named
//	a busy port          as a bad listener                  named: cannot bind
//
// Under the delta protocol an accepted answer says nothing of what was rejected before: degraded stays until Envoy has the
// very resources that were rejected, or no longer has their former forms, which are withdrawn with them. Of a resource that
// it never had, Envoy keeps nothing by which a withdrawal could be seen: degraded stays for the process's life then, and
// says that others were accepted since. Routes, endpoints and secrets have counters of their own: they are mended by what
// is accepted later, or when their subscription has ended, which takes a listener's drain.
//
// It observes nothing itself: agent/envoy observes the process and the admin, agent/cert the certificates. Some of Envoy's
// own stats mislead, and are not read: server.live and server.state lag, and one bad cluster keeps update_success at 0.
package health
