// Package model is the data model of the mesh: plain immutable values and their indexes.
//
//	Source ── Update (groups of services and objects) ──▶ discovery ── New(groups) ──▶ Mesh ──▶ xds
//
// A Mesh is one generation. A Mesh and all values that it points to are never changed; the next generation shares the
// unchanged values. Short host names are resolved to full names in this package only. The package does not depend on
// the origin of the values, on their readers or on Envoy: no goroutine, no clock, no I/O.
//
// Istio's API types appear as leaf values (Object.Spec), because they are the configuration's own words.
package model
