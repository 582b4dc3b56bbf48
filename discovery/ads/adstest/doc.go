// Package adstest has what the tests of several rooms of ADS need: a mesh, a node, and its view.
//
//	Mesh ──┐
//	Node ──┴─▶ View ─▶ snapshots, streams
//
// It knows no room of ADS, so that the tests of each may use it.
package adstest
