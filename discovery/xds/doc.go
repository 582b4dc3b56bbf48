// Package xds translates: a mesh and what a proxy depends on become Envoy's clusters, endpoints, listeners and routes,
// under the names that Istio gives them. It is pure: no goroutine, no clock, no I/O, and equal arguments give equal
// results, in the same order.
//
//	Node ── ParseProxy ──▶ Proxy ── ViewOf ──▶ View ─┬─ Outbound ── BuildOutbound ─┐
//	                                                 └─ Inbound ─── BuildInbound ──┴─▶ Resources
//	                                   Mesh ───────────────────────┘
//
// Traffic under interception mode NONE, the only one served:
//
//	program ──▶ 127.0.0.1:HTTP_PROXY_PORT ── route http_proxy ──▶ outbound|PORT|SUBSET|HOST ──▶ another sidecar
//	another sidecar ──▶ IP_PORT ──▶ inbound|PORT|| ──▶ the workload
//
// The package refuses to know how its results travel (that is ads), and other roles or interception modes, with an
// error that names what it does serve. Under NONE there is no listener for outbound TCP: nothing would lead to it.
//
// One bad object never spoils the rest: what Envoy would reject (an address that is none, a domain claimed twice) is
// left out here, and refused with its file and line where configuration is read.
package xds
