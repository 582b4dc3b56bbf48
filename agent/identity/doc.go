// Package identity works out who a proxy is, and what it tells of itself: its node ID and its node metadata.
//
//	settings, environment, addresses of the host ─▶ Identify ─▶ node.ID ──┐
//	                                                                      ▼
//	environment, labels and annotations of the pod, PROXY_CONFIG ─▶ Describe ─▶ LikeIstio ─▶ node.Metadata
//
// All of it are functions of values. The package leaves it to its callers to read the environment, the downward API's files and
// the addresses, and it changes nothing that it is given.
package identity
