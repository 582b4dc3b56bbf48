// Package sds serves certificates to the agent's own Envoy by Envoy's secret discovery service, as Istio's agent does: the
// workload's, by the names "default" and "ROOTCA", and those in other files of the proxy, by "file-cert:CHAIN~KEY" and
// "file-root:ROOTS". A control plane names them, and the static cluster "sds-grpc", in the configuration that it sends.
//
//	certificate files ─▶ Secrets ─▶ Server.Set ─┐
//	        ▲                                   ▼
//	  Server.Asked ◀── StreamSecrets, DeltaSecrets ──▶ stream (pure) ── responses ──▶ Envoy
//	                   gRPC over HTTP/2 without TLS, on a Unix socket
//
// One file that is missing or broken costs the hosts that it belongs to: their secret stays as it was last good, and where it
// never was, Envoy closes their connections. Named in a listener itself, the file would make Envoy refuse all of the listener.
//
// A secret that does not exist yet is answered when it does: Envoy waits. One that Envoy refuses is reported and not sent
// again; the next one is.
//
// It links neither gRPC nor Envoy's protobufs, which would treble the agent: both methods are one kind of stream, and the
// few fields of their messages are written by hand. It refuses other methods, other types and compressed messages.
package sds
