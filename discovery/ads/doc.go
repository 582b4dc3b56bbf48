// Package ads serves Envoys their configuration over one aggregated discovery stream each, in the state-of-the-world
// variant. What to say is decided by protocol, a state machine without I/O; a stream only carries it.
//
//	Push ──▶ generation ── view ──▶ snapshot (encoded once, shared) ─┐
//	                                                                 ▼
//	Envoy ── request ──▶ receiver ──▶ protocol (one per stream) ── responses ──▶ sender ──▶ Envoy
//
// Order within a stream, so that no route ever leads to a cluster that is not there:
//
//	new and changed clusters, the old ones kept ─▶ endpoints ─▶ ACK of both ─▶ listeners ─▶ routes ─▶ ACK ─▶ old clusters go
//
// What waits for a slow Envoy is one mark that something is newer, never a queue: the state at the time of its answer
// is sent once. State belongs to the stream, not to the node: two Envoys of one node may be connected in a handover.
//
// The package refuses to know how configuration is made (that is xds), and to answer before the first Push, since an
// empty answer would take everything from an Envoy that still serves. It is the only place with a gRPC server.
package ads
