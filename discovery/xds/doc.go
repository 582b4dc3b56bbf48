// Package xds translates: a mesh and what a proxy depends on become Envoy's clusters, endpoints, listeners and routes,
// under the names that Istio gives them. It is pure: no goroutine, no clock, no I/O, and equal arguments give equal
// results, in the same order.
//
//	Node ── ParseProxy ──▶ Proxy ── ViewOf ──▶ View ─┬─ Outbound ── BuildOutbound ─┐
//	                                                 └─ Inbound ─── BuildInbound ──┴─▶ Resources
//	                                   Mesh ───────────────────────┘
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
// RebuildOutbound takes over from an earlier result, pointer for pointer, whatever was made of the same.
//
// The package refuses to know how its results travel (that is ads). One bad object never spoils the rest: what Envoy
// would reject (an address that is none, a domain or a match claimed twice) is left out here, and refused with its file
// and line where configuration is read.
package xds
