// Package xds translates a mesh, and the properties of a proxy that its configuration depends on, to Envoy's clusters,
// endpoints, listeners and routes, with the names that Istio uses. It is pure: no goroutine, no clock, no I/O, and
// equal arguments give equal results, in the same order.
//
//	Node ── ParseProxy ──▶ Proxy ── ViewOf ──▶ View ─┬─ Outbound ─ RebuildWithSibling ─┐
//	                                                 └─ Inbound ─── BuildInbound ──────┴▶ Resources
//	                                   Mesh ───────────────────────────┘
//
// Traffic of a sidecar whose connections are intercepted, and of one without (interception mode NONE):
//
//	program ──▶ virtualOutbound:15001 ──▶ ADDRESS_PORT ── route PORT ──▶ outbound|PORT|SUBSET|HOST ──▶ another sidecar
//	another sidecar ──▶ virtualInbound:15006 ── chain PORT ──▶ inbound|PORT|| ──▶ the workload
//
//	program ──▶ 127.0.0.1:HTTP_PROXY_PORT ── route http_proxy ──▶ outbound|PORT|SUBSET|HOST ──▶ another sidecar
//	another sidecar ──▶ IP_PORT ──▶ inbound|PORT|| ──▶ the workload
//
// A gateway has a listener for each bind and port of the Gateways that select it, and no inbound half.
//
// RebuildWithSibling reuses from an earlier result, pointer for pointer, every value whose inputs did not change.
//
// The package does not handle the transport of its results (package ads does). An invalid object does not affect the
// other objects: a part that Envoy would reject (a malformed address, a domain or a match that is used twice) is left
// out here. Where configuration is read, it is reported with its file and line.
package xds
