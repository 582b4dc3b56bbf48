// Package lastgood remembers the configuration that an Envoy has accepted, on disk, and answers from it: docs/design/032.
//
//	responses, ACKs ──▶ Session ── queue ──▶ journal file ──▶ rename: last-good
//	                                                              │
//	Envoy's requests ──▶ Answers (pure) ◀── Memory: name → place ◀┘ Load
//
// No resource stays in the heap: a response goes to the file in pieces, and what is answered is read from there. Nothing here
// waits for the disk: if it does not keep up, recording ends and the older file stays.
//
// It refuses to remember what Envoy has refused, and secrets. It refuses to read a file that is not this user's own, not
// regular, too long, of another proxy, or too old; what follows a fault in the file does not count.
package lastgood
