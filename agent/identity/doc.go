// Package identity computes the identity of a proxy: its node ID and its node metadata.
//
//	settings, environment, addresses of the host ─▶ Identify ─▶ node.ID ──┐
//	                                                                      ▼
//	environment, labels and annotations of the pod, PROXY_CONFIG ─▶ Describe ─▶ LikeIstio ─▶ node.Metadata
//
// All functions here are pure. The callers read the environment, the downward API's files and the
// addresses. The package changes none of its arguments.
package identity
