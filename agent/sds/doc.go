// Package sds serves certificates to the agent's own Envoy by Envoy's secret discovery service, as Istio's agent does.
// The workload's secrets are named "default" and "ROOTCA", those of other files "file-cert:CHAIN~KEY" and
// "file-root:ROOTS". The configuration of a control plane refers to these names, and to the static cluster "sds-grpc".
//
//	certificate files ─▶ Secrets ─▶ Server.Set ─┐
//	        ▲                                   ▼
//	  Server.Asked ◀── StreamSecrets, DeltaSecrets ──▶ stream (pure) ── responses ──▶ Envoy
//	                   gRPC over HTTP/2 without TLS, on a Unix socket
//
// A missing or broken file affects only the hosts that it belongs to: they keep the last good version of their secret, and if
// there was none, Envoy closes their connections. If a listener named the file itself, Envoy would refuse the whole listener.
//
// The answer for a secret that does not exist yet is sent when it exists: Envoy waits. A secret that Envoy refuses is logged
// and not sent again; its next version is.
//
// Both methods are one kind of stream, and their messages are encoded by package frame. It refuses other methods, other types
// and compressed messages.
package sds
