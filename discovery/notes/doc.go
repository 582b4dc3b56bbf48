// Package notes reports the notes of a mesh's objects: an unknown host, a policy that does nothing, a conflict.
//
//	discovery ── Judge(mesh) ──▶ newest ──▶ mesh.NotesAfter(last) ──▶ difference ──▶ log: new and mended, each once
//	                                             │                       └ pure
//	                                             └──▶ Notes for /debug/notes, pilotlight_config_notes{code}
//
// Warnings of reading an object are notes too, for as long as it is served; their log lines are those of the source.
//
// Only the newest mesh is judged, with a small share of the CPU time: a push never waits for it. Notes that depend on
// the connected proxies are judged again as proxies connect. The package does not change the configuration that is
// served.
package notes
