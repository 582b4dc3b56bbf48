// Package node is the contract between the two halves: the identity of a proxy (its role and node ID) and its
// metadata. The agent writes both into Envoy's bootstrap, Envoy sends them to discovery, and
// discovery reads them back with the same code.
//
//	agent ── ID.String, Metadata.Map ──▶ bootstrap ──▶ Envoy ── DiscoveryRequest.node ──▶ ParseID, ParseMetadata ── discovery
//
// The package does not read flags, environment or addresses: its callers do. It imports nothing but the standard library,
// so the agent stays lean.
package node
