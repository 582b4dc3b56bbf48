// Package file is the config store of a directory: YAML and JSON files of Istio's objects.
//
//	watch ── paths ──▶ look ── files ──▶ parse ── documents ──▶ apply(state, found, now) ──▶ Update: the groups that changed
//	                    │ figures that      │ bytes that are       │ finished? declared twice? a wipe?
//	                    │ did not change    │ known are moved      └──▶ problems, each logged once; Status; when to look again
//	                    ▼                   ▼
//	                 not read            not decoded
//
// The cost of a change is in proportion to the change: events name files, and a regular scan of all files reads only
// those whose size, time or inode has changed. Documents whose bytes the file had before are not decoded again.
//
// An object with an error is refused alone. Its last good form stays, as do the objects of a document, a file or a
// directory that cannot be read. If two files declare one object, the first file by name wins. A file that is being
// written is not applied, and one that holds less than before only after a moment without a write. If many objects
// disappear at once, they stay for a while. While the directory itself cannot be read, nothing changes; until it could
// be read once, the store has not synced. docs/design/009-file-store.md has the details.
//
// The package does not read hidden files and directories, or files with other names than *.yaml, *.yml and *.json. It names
// those that have objects of Istio and are likely to be meant. It does not read anything but regular files, or more than
// 16 MiB of one file, 64 MiB of standard input, or 256 MiB of all.
package file
