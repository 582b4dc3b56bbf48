// Package application runs the program that a proxy stands beside, as if it had been started directly: with
// the same input, output and environment, its signals, its exit status.
//
//	signals ──▶ Run ──▶ the application, in a process group of its own
//	terminal ──────────▶ its foreground while it runs
//	exit status ◀── Run ◀── its end: its status, or 128 + the signal
//
// The group of its own makes sure that a signal comes once: a signal to the caller's group reaches the application only
// by Run. A signal goes to the application's process, not to its group, as it would without Run.
//
// It sets no parent-death signal: when the caller is killed the application lives on, for its work is worth more than
// the order in which things end. It leaves all other children to its caller: an agent that is PID 1 runs a reaper beside
// it.
package application
