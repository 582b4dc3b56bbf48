// Package watch turns changes of files and directories into coalesced ticks.
//
//	inotify ──▶ relevant? ──▶ pending (first, last) ── quiet, or ceiling ──▶ tick (capacity 1, never blocks)
//	recheck ──▶ arm again ─────────────────────────────────────────────────▶ tick
//
// A tick says "look again", not what changed: the reader reads everything and compares. So a tick too many costs one read,
// and no order of events (an editor's rename, Kubernetes' swap of ..data, a directory deleted and made anew) needs a case
// of its own in the reader. A missing tick would be a fault; the periodic recheck bounds how long it lasts. Where the
// system grants no watch at all, it comes every second, and so it does while other files of a watched directory are written
// all the time: each of their events would wake the process up.
//
// A Tree is for many files: it watches a directory with all below it, and names the files that an event was about, so
// that a change costs what changed. Where an event does not say (a directory, a link, a lost event), it asks for a look
// at everything, and so it does from time to time.
//
// Appears waits for one file, such as a socket that a program is about to make.
//
// The package does not read the files. It is the only package that imports fsnotify.
package watch
