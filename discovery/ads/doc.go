// Package ads serves Envoys their configuration over discovery streams, in both variants: state of the world and delta.
// The type protocol decides each answer, a state machine without I/O; a stream only carries the answers.
//
//	Push ──▶ generation ── view ──▶ snapshot: sets of layers, each resource encoded once ──▶ share: one diff for all
//	                                                                                             │
//	Envoy ── request, scanned ──▶ stream ──▶ protocol (one per stream, pure) ── responses ◀──────┘
//	  ▲                                                                             │
//	  └──────────── shared bytes of the resources + a few of its own ◀──────────────┘
//
// Order within a stream, so that no route ever leads to a cluster that is not there:
//
//	new and changed clusters, the old ones kept ─▶ endpoints ─▶ ACK of both ─▶ listeners ─▶ routes ─▶ ACK ─▶ old clusters go
//
// Listeners and routes wait for clusters that they name, and for no others: Envoy answers for clusters when they are
// warm. They wait for a second at most, since a cluster may warm for ever; the next clusters are then sent as well.
//
// Secrets wait for nobody: clusters and listeners do not get warm without theirs. Names follow the listeners.
//
// For a slow Envoy the server keeps one mark that something is newer, never a queue: it sends the state at the time of
// Envoy's answer, once. State belongs to the stream, not to the node: two Envoys of one node may be connected in a
// handover.
//
// A stream whose node has the metadata GENERATOR "api" is of another control plane: it gets the objects that configuration is made of
// (objects.go), by a protocol of its own that knows neither names nor order.
//
// The package refuses to know how configuration is made (that is xds), and to answer before the first Push, since an
// empty answer would take everything from an Envoy that still serves. It is the only place with a gRPC server.
package ads
