// Package mcp is the config store that reads from another control plane: Istio's objects over ADS, as Istio's API
// generator and discovery itself serve them (MCP over xDS).
//
//	Source.Run: dial ─▶ ask for every kind ─▶ response of a kind ─▶ ACK
//	                                               │
//	                    groups that changed ◀─ difference ◀─ object: Any ─▶ JSON ─▶ config.Read, as of a file
//
// A run has synced when every kind was answered. If a kind had objects and its first answer in a run has none, the
// objects are kept for a while: a server that has just started may not have read them yet
// (docs/design/015-cloudfoundry-mcp.md).
//
// The package does not retry: the server of the sources does. It does not request MeshConfig, which itself names the
// sources of objects.
package mcp
