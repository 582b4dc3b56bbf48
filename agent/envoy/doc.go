// Package envoy runs the real Envoy as a child: its arguments, files, start, signals and last words, and a client of
// its admin. It is the only place that starts a process.
//
//	Run: bootstrap ─▶ configPath/envoy-rev{epoch}.json (0600) ─▶ fork ─▶ poll /ready ─▶ live
//	                                                              │ abortCh: signals
//	                                                              ▼
//	                                             reaped ─▶ files removed ─▶ Exit
//
// It refuses to decide: whether an exit was a failure, and what follows, is package agent's. Facts about Envoy 1.40
// that the code relies on are cited where it does.
package envoy
