// Package identity computes the identity of a proxy: its node ID and its node metadata.
//
//	settings, environment, addresses of the host ─▶ Identify ─▶ node.ID ──┐
//	                                                                      ▼
//	environment, labels and annotations of the pod, PROXY_CONFIG ─▶ Describe ─▶ LikeIstio ─▶ node.Metadata
//
// All functions here are pure, and do not change their arguments. The callers read the environment, the downward API's
// files and the addresses.
package identity
