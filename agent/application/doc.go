// Package application runs the program beside a proxy as if it had been started directly: with the same input, output
// and environment, its signals, its exit status.
//
//	signals ──▶ Run ──▶ the application, in a process group of its own
//	terminal ──────────▶ its foreground while it runs
//	exit status ◀── Run ◀── its exit: its status, or 128 + the signal
//
// Since the application has its own process group, it receives each signal once: a signal to the caller's group reaches it
// only through Run. Run sends a signal to the application's process, not to its group, as it would be without Run.
//
// Run sets no parent-death signal: when the caller is killed the application runs on, since its work is more important than
// an orderly shutdown. It does not reap other children: an agent that is PID 1 runs a reaper beside it.
package application
