// Package status answers over HTTP how discovery is doing.
//
//	GET /ready       200 "ready", or 503 with the reason
//	GET /debug/adsz  the connected proxies as JSON, for callers on loopback
//
// It only reads; what is shown belongs to others. It refuses to show the mesh to anybody beyond this host: /debug says
// who is connected and what each was told.
package status
