// Package authz translates policies of Istio's security API to Envoy's filters. It is pure: equal arguments give equal
// results.
//
//	RequestAuthentications of a workload ─▶ jwt_authn: one filter for HTTP, which checks tokens and leaves their claims
//	AuthorizationPolicies of a workload ─▶ rules ─▶ RBAC: one filter for each action, for HTTP and for TCP
//	                                          └ CUSTOM: RBAC that enforces nothing ─▶ ext_authz, which asks a provider
//
// What it cannot read it takes at its strictest: of an ALLOW rule nothing is left, a DENY rule loses the condition, or the
// value of a negative one, so that it denies more. Validation (discovery/config) reports the same faults, by the same
// functions of package model; this package does not rely on it.
//
// It does not know which policies a workload has (package model), nor where filters go (package xds).
package authz
