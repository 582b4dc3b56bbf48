// Package status serves the state of discovery over HTTP.
//
//	GET /                    a page of the mesh for browsers, from package page; for programs the list of pages
//	GET /ready               200 "ready", or 503 with the reason; with ?verbose also a line for each fault
//	GET /v1/registration     services and endpoints
//	GET /debug/…             registryz endpointz configz: services, endpoints and objects of the newest mesh
//	                         config: the state of the store of configuration
//	                         sources: the state of each source of services and configuration
//	                         notes: notes about configuration that is served
//	                         proxies: each connected proxy with its states and notes, the worst first
//	                         adsz syncz config_dump?proxyID=: what each proxy was sent, and has accepted
//	                         push_status: the last pushes, from their cause to the last proxy's answer
//	                         explain?from=&to=: what becomes of one request
//	                         pprof
//
//	POST /debug/release      ends the hold of a source; from this host only, however the pages are configured
//
//	GET /metrics /version    at the monitoring address
//
// At the secure port, to a certificate of the root namespace, the page of the mesh, /v1/registration, and /debug without pprof: see Afar.
//
// It reads state of other packages, and changes none but by release. All pages but /ready, /metrics and /version answer only programs on this host
// (see internal/local), unless configured otherwise: they show the whole mesh, and the configuration of each proxy.
package status
