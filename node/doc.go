// Package node is the contract between the two halves: who a proxy is (its role and node ID) and what it tells
// about itself (its metadata). The agent writes both into Envoy's bootstrap, Envoy sends them to discovery, and
// discovery reads them back with the same code.
//
//	agent ── ID.String, Metadata.Map ──▶ bootstrap ──▶ Envoy ── DiscoveryRequest.node ──▶ ParseID, ParseMetadata ── discovery
//
// The package refuses to know where the values come from: flags and environment belong to cmd, addresses to the
// caller. It imports nothing but the standard library, so the agent stays lean.
package node
