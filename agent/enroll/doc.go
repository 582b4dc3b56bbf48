// Package enroll gets the certificate of a workload from an authority, and renews it.
//
//	key, CSR ──▶ ask ── by certificate, else by token ──▶ chain, roots ── checked ──▶ files, as one change
//	   ▲                                                                                   │
//	   └──── half of the life, or a back-off, or another token ◀── Run ◀───────────────────┘
//	        or other roots of the authority, for which follow asks meanwhile
//
// The key is made here, and lies in the directory from before a request until its answer is there (files.go). The files are those
// that agent/cert watches; they are in a directory of the agent's user alone, so that an Envoy that starts while the authority is
// away has them. When to ask is decided by functions of times (plan.go). The package leaves it to agent/cert to judge the files, and
// to agent/sds to serve them.
package enroll
