// Package model is the mesh as discovery knows it: plain immutable values and their indexes.
//
//	Source ── Update (groups of services and objects) ──▶ discovery ── New(groups) ──▶ Mesh ──▶ xds
//
// A Mesh is one generation. Nobody changes it or anything that it points to; the next generation shares what did
// not change. Short host names are resolved to full ones here and nowhere else. The package refuses to know where
// values come from, who asks for them, or what Envoy is: no goroutine, no clock, no I/O.
//
// Istio's API types appear as leaf values (Object.Spec), because they are the configuration's own words.
package model
