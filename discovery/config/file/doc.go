// Package file is the config store of a directory: YAML and JSON files of Istio's objects.
//
//	watch ── paths ──▶ look ── files ──▶ parse ── documents ──▶ apply(state, found, now) ──▶ Update: the groups that changed
//	                    │ figures that      │ bytes that are       │ finished? declared twice? a wipe?
//	                    │ did not change    │ known are moved      └──▶ problems, each logged once; Status; when to look again
//	                    ▼                   ▼
//	                 not read            not decoded
//
// A change costs what changed: events name files, and a look at everything from time to time reads those only whose
// size, time or inode is another one. Of a file, the documents whose bytes it had before are not decoded again.
//
// An object with an error is refused alone. Its last good form stays, as do the objects of a document, a file or a
// directory that cannot be read. Of one object in two files that of the first file, by name, stays. A file that is being
// written is not taken, and one that holds less than before only when it was left alone for a moment. Objects that go in
// masses stay for a while. While the directory itself cannot be read, nothing changes; until it could be read once, the
// store has not synced. docs/design/009-file-store.md has the details.
//
// The package refuses to look into hidden files and directories and files of other names than *.yaml, *.yml and *.json, to
// read what is not a regular file, and to read more than 16 MiB of one file or 256 MiB of all.
package file
