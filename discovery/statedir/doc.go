// Package statedir keeps what is served of each source in a directory, for a start of discovery during which the source is
// away. docs/design/031-remember.md says what becomes of it.
//
//	Keep(source, groups) ─▶ pending ─▶ Run: lock ─▶ NAME-HASH.tmp ─▶ fsync ─▶ rename ─▶ NAME-HASH.state
//	Load ◀─ checked: owner, mode, size, format, domain, cluster, settings, age, checksum ◀────────┘
//
// One process writes, that with the lock; any may read. A file that cannot be used is named, and the others are used. A write
// that fails is tried again, and named until it succeeds; the file before it stays.
//
// Secrets never reach it: they are no part of a group. The directory must belong to the user and be writable by nobody else,
// since its files decide what proxies get. The package leaves to discovery what is kept, when, and what replaces it.
package statedir
