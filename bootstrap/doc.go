// Package bootstrap turns parameters into the bytes of an Envoy 1.40 bootstrap.
//
//	Params ── template of the role, or the user's ──▶ JSON object ── Merge ──▶ what Envoy reads
//	                                                        override ──┘
//
// It is pure: no files, no environment, no clock. The identity comes from package node, the text from package templates; the
// caller writes the bytes. It refuses a value that Envoy would refuse only where it can give a better reason, and leaves
// all other checks to Envoy.
package bootstrap
