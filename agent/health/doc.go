// Package health says whether a proxy serves, and whether it hangs. It is pure: observations and times go in, a
// verdict comes out, and all that it remembers is a State, which is plain data.
//
//	Observation ──▶ State.Next(o, now) ──▶ State ──▶ Verdict: ready, degraded, six conditions, hang
//
//	          answered                        2 s, CPU time stands still
//	serving ◀─────────── no answer ─────────────────────────────▶ silent: replace
//	   │                     │ 2 s, CPU time advances
//	   │ process stopped     └──────────▶ busy ── 60 s ─────────▶ replace
//	   └──────────────────────────────────────────────────────▶ stopped: replace
//
// It refuses to look: the process, the admin and the certificates are observed elsewhere. It knows which of Envoy's own
// words mislead (server.live and server.state, which lag; update_success, which one bad cluster keeps at 0) and has
// no place for them.
package health
