// Package ads serves Envoys their configuration over discovery streams, in both variants: state of the world and delta.
// Package protocol decides each answer, a state machine without I/O; a stream only carries the answers. Package content has
// what they are made of.
//
//	Push ──▶ generation ── view ──▶ snapshot: sets of layers, each resource encoded once ──▶ share: one diff for all
//	                                                                                             │
//	Envoy ── request, scanned ──▶ stream ──▶ protocol.Session (one per stream) ── responses ◀────┘
//	  ▲                                                                             │
//	  └──────────── shared bytes of the resources + a few of its own ◀──────────────┘
//
// Order within a stream, so that no route refers to a cluster that does not exist:
//
//	new and changed clusters, the old ones kept ─▶ endpoints ─▶ ACK of both ─▶ listeners ─▶ routes ─▶ ACK ─▶ old clusters go
//
// Listeners and routes wait for clusters that they name, and for no others: Envoy answers for clusters when they are
// warm. They wait for a second at most, since a cluster may warm for ever; the next clusters are then sent as well.
//
// Secrets are sent at once: clusters and listeners do not get warm without them. Names follow the listeners.
//
// Package intake bounds the memory of requests until a stream has read them.
//
// A new stream reads on while its view is made (admission.go): a thousand streams wait at once after a restart.
//
// For a slow Envoy the server keeps one mark that there is a newer state, never a queue: at Envoy's answer it sends the
// state of that time, once. State belongs to the stream, not to the node: two Envoys of one node may be connected in a
// handover.
//
// A stream whose node has the metadata GENERATOR "api" comes from another control plane. It gets the objects that
// configuration is made of (objects.go), by a separate protocol without names and without order.
//
// A stream and the server share a hub; the server lists the streams, and its pages, metrics and pushers stand above both.
//
// The package does not make configuration (xds does), and does not answer before the first Push, since an empty answer
// would remove everything from an Envoy that still serves. No other package has a gRPC server.
package ads
