// Package ingress makes Gateways and VirtualServices of Kubernetes' Ingress objects, for the proxies of role ingress.
//
//	Store.Put, Delete, Keep ── IngressClass, Ingress, Service of each store ──▶ Table ── Changes ──▶ groups, by key
//	SetSecrets ─ which Secrets can be served ───────────────────────────────▶   │   ── Wanted ───▶ the Secrets of TLS that Ingresses name
//
//	Ingress/NAMESPACE/NAME    faults only: the parts of the Ingress that are not served, and why
//	VirtualService/HOST       the routes of a host, in the order of Kubernetes: the longest path first, Exact before Prefix
//	Gateway/NAMESPACE, …      the listeners: one of HTTP for a namespace, one of HTTPS for each host whose Secret is good
//
// A host belongs to the namespace of the oldest Ingress that names it, or a wildcard for it, in whatever store. Requests
// to a path of it whose Service is missing are answered with 503: they must not match a shorter path of another Service.
//
// An Ingress is read once, a host is translated when something changes that it depends on:
//
//	Ingress ─▶ part of each host ─▶ host: owner, paths, certificate ─▶ VirtualService, Gateways
//	                     Service, Secret, IngressClass ─▶ index ─┘
//
// The result depends only on the set of objects, not on their order: the package does not read, watch or log, and has
// no clock and no goroutine. It does not get keys: its caller checks the Secrets. A Table is for one goroutine.
package ingress
