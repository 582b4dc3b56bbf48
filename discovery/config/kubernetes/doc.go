// Package kubernetes is the store of Istio's objects in the API server of a Kubernetes cluster, and of the mesh's settings in
// one of its ConfigMaps.
//
//	CustomResourceDefinitions ──▶ which kinds there are, in which version ──▶ a watch of each ──▶ config.Read ──▶ Update
//	ConfigMap ──▶ config.DecodeSettings ──▶ Update
//
// A kind whose definition comes while the server runs is followed from then on; the objects of one whose definition goes are
// gone with it. An object is decoded and judged as one of a file is. One with an error keeps its last good form, and the
// source names it; its origin is the cluster, UID, generation and resourceVersion. A change of its status is no change.
//
//	problems ─┐
//	notes ────┴▶ Statuses ──▶ verdict ≠ what the status says ──▶ the leader's queue ──▶ Event, status
//
//	API server ──▶ Review ──▶ refused, or let through with warnings
//
// What is wrong with an object is written to its status alone, by one replica: it causes no change of the mesh. The package
// does not serve kinds that discovery/config does not know.
package kubernetes
