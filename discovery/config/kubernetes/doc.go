// Package kubernetes is the store of Istio's objects in the API server of a Kubernetes cluster, and of the mesh's settings in
// one of its ConfigMaps.
//
//	CustomResourceDefinitions ──▶ kinds and their versions ──▶ a watch of each ──▶ config.Read ──▶ Update
//	ConfigMap ──▶ config.DecodeSettings ──▶ Update
//
// A kind whose definition is created while the server runs is followed from then on; if a definition is deleted, its
// objects are removed. An object is decoded and judged like one in a file. An object with an error keeps its last good
// form, and the source reports it. An object's origin is the cluster, UID, generation and resourceVersion. A change of
// its status is ignored.
//
//	problems ─┐
//	notes ────┴▶ Statuses ──▶ verdict ≠ present status ──▶ the leader's queue ──▶ Event, status
//
//	notes of proxies that are Pods ──▶ PodEvents ──▶ the queue of each replica ──▶ Event
//
//	API server ──▶ Review ──▶ refused, or admitted with warnings
//
// The problems of an object are written only to its status, by one replica: that causes no change of the mesh. The
// package serves only the kinds of discovery/config.
package kubernetes
