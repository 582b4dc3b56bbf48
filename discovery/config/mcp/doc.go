// Package mcp is the config store of another control plane: Istio's objects over ADS, as Istio's API generator serves them, and
// discovery itself (MCP over xDS).
//
//	Source.Run: dial ─▶ ask for every kind ─▶ response of a kind ─▶ ACK
//	                                               │
//	                    groups that changed ◀─ difference ◀─ object: Any ─▶ JSON ─▶ config.Read, as of a file
//
// A run has synced when every kind was answered. At its beginning a kind that had objects and has none is not believed at
// once: a server that has just started may not have read them yet (docs/design/015-cloudfoundry-mcp.md).
//
// The package refuses to retry: the server of the sources does. It asks for no MeshConfig, which says itself where objects come from.
package mcp
