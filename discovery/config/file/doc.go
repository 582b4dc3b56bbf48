// Package file is the config store of a directory: YAML and JSON files of Istio's objects.
//
//	watch ── tick ──▶ Read ── files ──▶ plan(last, files) ──▶ Update: the groups that changed
//	                                      │        └──▶ problems, each logged once
//	                                      └ per file: the bytes' hash and the last good objects
//
// Each tick reads everything and compares; no event is trusted to say what changed. A file with an error is refused
// whole and its last good objects stay. Of one object in two files that of the first file, by name, stays. While the
// directory itself cannot be read, nothing changes; until it could be read once, the store has not synced.
//
// The package refuses to look into subdirectories, hidden files and files of other names than *.yaml, *.yml and *.json.
package file
