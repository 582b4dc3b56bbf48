// Package page is the page of the mesh for people: what is wrong, proxies, services, the last changes, a graph, and a form for explain.
//
//	Facts ─▶ Of(filter) ─▶ Data: rows, the worst first, at most maxRows of each
//	                        ▲
//	Bell ─▶ GET /page/events: "changed" ─▶ browser ─▶ GET /page/data?q=… ─▶ text
//	faults, each beat ──────▶ their digest ──┘ if it shows others
//	                                          └─▶ GET /debug/explain
//
// An event carries no data: a browser asks for what it shows when something has changed, so events are small, and a reader that stands still
// loses nothing. Nothing runs while no page is open; an open one that shows a mesh at rest gets a line every beat, by which
// it finds faults that came or went without a notification. Event streams are at most maxReaders, and one that takes nothing is dropped after sendLimit.
//
// It does not decide what is wrong, and reads no state by itself: the plane has the facts, and package status lets only programs on this host in.
package page
