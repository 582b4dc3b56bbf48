// Package bootstrap turns parameters into the bytes of an Envoy 1.40 bootstrap.
//
//	Params ── template of the role, or the user's ──▶ JSON object ── Merge ──▶ what Envoy reads
//	                                                        override ──┘
//
// It is pure: no files, no environment, no clock. Who the proxy is comes from package node, the text from package
// templates; where the bytes go is the caller's business. It refuses what Envoy would refuse only where the reason
// can be said better here; Envoy itself is the judge of the rest.
package bootstrap
