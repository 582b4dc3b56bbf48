// Package handoff replaces the program of this process by another image of the agent, which goes on with its children and sockets.
//
//	Ask    would the other image take over? It is run with --can-adopt, and answers
//	Files  descriptors that go along, by number
//	Pack   the state, sealed in memory: a memfd
//	Handed what an image was handed: by its environment, two descriptors
//	Images runs this image, executes the next one, and returns to the one before; execve is on the thread that forked the children
//	Kernel what all of it asks of the kernel, as functions: a test has one in memory
//
// It does not know what the state says, which is its caller's business: here it has a format, a size, and the process for which it was
// written. Nothing is decided here either: package agent says when a supervisor may leave, and agent/proxy puts the state together.
package handoff
