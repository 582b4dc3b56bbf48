// Package probe sends the kubelet's probes to the application, past its proxy: by HTTP, TCP or gRPC.
//
//	GET /app-health/NAME/livez ── Probes ──▶ Reach: the proxy's own address, from 127.0.0.6 or ::6 past redirection;
//	                                         then 127.0.0.1 and ::1
//
// It does not judge the application: the kubelet gets its answer, or why there is none. It opens no port, which
// agent/status does, and nothing runs between probes.
package probe
