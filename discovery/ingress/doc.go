// Package ingress makes Gateways and VirtualServices of Kubernetes' Ingress objects, for the proxies of role ingress.
//
//	Put, Delete ── IngressClass, Ingress, Service ──▶ Table ── Changes ──▶ groups, by key
//	SetSecret ── which Secrets can be served ───────▶   │   ── Wanted ───▶ the Secrets of TLS that Ingresses name
//
//	Ingress/NAMESPACE/NAME    faults only: what of the Ingress is not served, and why
//	VirtualService/HOST       the routes of a host, in the order of Kubernetes: the longest path first, Exact before Prefix
//	Gateway/NAMESPACE, …      the listeners: one of HTTP for a namespace, one of HTTPS for each host whose Secret is good
//
// A host belongs to the namespace of the oldest Ingress that names it, or a wildcard for it. A path of it whose Service is missing is
// answered with 503: a shorter path of another Service must not take its requests.
//
// The package is a function of the objects, whatever their order: it does not read, watch or log, has no clock and no goroutine. It
// does not see keys: which Secrets are good is for others to say. One Table is for one goroutine.
package ingress
