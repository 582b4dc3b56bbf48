// Package regular reads files whose names people give: certificates, tokens, configuration. The name may lead to a pipe, a
// device, or a file without an end; a read never waits for another program, and is bounded.
//
//	name ─▶ regular file? ─▶ open without waiting ─▶ at most so many bytes ─▶ unchanged since? ─▶ content
//
// It refuses what is no regular file, what is longer than the caller allows, and what changed while it was read.
package regular
