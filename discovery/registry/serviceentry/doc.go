// Package serviceentry is the registry of what configuration declares: Istio's ServiceEntry objects as services.
//
//	config store ── Update{objects} ──▶ Source ── Update{objects + services} ──▶ discovery
//
// It wraps a config store, whichever it is, and adds to each group the services of its ServiceEntry objects, so that an
// object and its services change together. It refuses to judge them: they are validated where they are decoded.
package serviceentry
