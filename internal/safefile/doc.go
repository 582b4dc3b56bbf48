// Package safefile reads files whose names come from users: certificates, tokens, configuration. The name may be that of
// a pipe, a device, or an endless file; a read never waits for another program, and its size is limited.
//
//	name ─▶ regular file? ─▶ open without waiting ─▶ at most so many bytes ─▶ unchanged since? ─▶ content
//
// It refuses a file that is not regular, one that is longer than the caller allows, and one that changes during the
// read.
package safefile
