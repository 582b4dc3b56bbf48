// Package lossy writes a log to a file that may be blocked or broken, such as a pipe that no process reads, and never makes
// its caller wait.
//
//	Write ──▶ pending, at most limit bytes ──▶ one goroutine ──▶ the file
//	              │ full                            │ flows again
//	              ▼                                 ▼
//	       dropped and counted               the callback receives the number
//
// When another image of the agent goes on, it carries the number of lines that were not written, and tells it as if it had dropped them.
//
// It drops whole lines: a caller writes one or more lines at a time. A caller that has only pieces, such as a process's
// output, puts a Lines before it.
//
// It does not depend on the format of a log line.
package lossy
