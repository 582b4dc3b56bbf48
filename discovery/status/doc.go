// Package status answers over HTTP how discovery is doing.
//
//	GET /ready               200 "ready", or 503 with the reason; with ?verbose also what is refused, held or waited for
//	GET /v1/registration     services and endpoints
//	GET /debug/…             registryz endpointz configz: what discovery knows
//	                         config: how the store of configuration stands
//	                         sources: how each source of services and configuration is doing
//	                         notes: what is to be said of configuration that is served
//	                         adsz syncz config_dump?proxyID=: what each proxy was told, and has accepted
//	                         push_status: the last pushes, from their cause to the last proxy's answer
//	                         pprof
//
//	GET /metrics /version    at the monitoring address
//
// It only reads; what is shown belongs to others. All but /ready, /metrics and /version answers programs on this host
// only (see internal/local), unless it is configured otherwise: it shows the whole mesh, and the configuration of each
// proxy.
package status
