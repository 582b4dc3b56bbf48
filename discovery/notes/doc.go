// Package notes reports the notes of a mesh's objects: an unknown host, a policy that does nothing, a conflict.
//
//	discovery ── Judge(mesh) ──▶ newest ──▶ mesh.Notes() ──▶ difference ──▶ log: new and mended, each once
//	                                             │              └ pure
//	                                             └──▶ Notes for /debug/notes, pilotlight_config_notes{code}
//
// Only the newest mesh is judged, for a small share of the time: a push never waits for it. Notes that depend on the connected
// proxies are judged again as proxies come. The package refuses to change what is served.
package notes
