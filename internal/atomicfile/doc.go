// Package atomicfile writes a file that outlives a crash of the machine: after it there is the whole new file under its name, or the
// whole one before.
//
//	Create: NAME.new, a new file ─▶ the caller writes ─▶ Take: fsync ─▶ rename ─▶ fsync of the directory
//
// Write is all of it, for a content that the caller has.
//
// What a process that was killed has left under the temporary name is replaced. The package does not lock: one process at a time
// writes a file. It leaves the content, the name and the mode to its callers.
package atomicfile
