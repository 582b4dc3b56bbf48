// Package status is the agent's HTTP: its own state, the application's probes and metrics, and the front of Envoy's
// admin.
//
//	:15020           ── Handler ──▶ Document: a copy of what is known
//	  GET  /healthz/ready[?verbose]   a proxy serves and shall get work: 200, else 503 and what is missing
//	  GET  /healthz/live              the agent's loop answers within a second, and has not given up
//	  GET  /status                    everything, as JSON
//	  GET  /metrics                   the agent's own, for Prometheus
//	  GET  /stats/prometheus          Envoy's, the agent's and the application's, in one
//	  GET  /app-health/NAME/livez     the application's probe: HTTP, TCP or gRPC
//	  POST /drain, /undrain           out of service, and back; from 127.0.0.1 and ::1 only
//	  POST /quitquitquit              what SIGTERM does; from there only
//	127.0.0.1:15000  ── Front: GET and HEAD ──▶ Unix socket of the epoch that serves
//	agent.sock       ── Owner ──▶ both: the port's for Host agent; the admin's, and a few POST requests, for Host envoy
//
// Envoy's admin has no authentication and can end the process, so it listens on a socket that only its owner may open, one
// per epoch. The front gives it the port that people and tools know, for reads. Requests that change something, such as log
// levels, go through the slot's own socket, by the agent's user or root: any user and any page in a browser can ask at a
// port.
//
// # Bounds
//
// A port accepts every connection, and holds 96 at most: 64 of strangers, 8 of one of them, 16 of this host, 16 of the node,
// whose kubelet probes (HOST_IP, the gateways of the default routes, and the pod's own addresses); fewer where the process
// may open fewer than 512 files. When a room is full, the oldest connection that has not sent its request yet is closed, of
// the source that has most. So a probe is answered while other clients hold connections open.
//
// # Shapes
//
// Programs read two documents; their keys stay. Times are RFC 3339, missing ones are left out.
//
//	/healthz/ready?verbose, with the status of /healthz/ready:
//	{"ready", "stopping", "drained": bool, "degraded": "what Envoy rejected, else empty",
//	 "conditions": [{"type", "status": bool, "reason", "since"}], "discovery": one more, where Envoy has a stream}
//
//	/status:
//	{"node", "ready", "stopping", "drained": bool, "gave_up",
//	 "handover", "last_handover_ns", "refusal": {"reason", "at"},
//	 "epochs": [{"epoch", "family", "restart_epoch", "state", "pid",
//	             "started_at", "age_seconds", "live_at", "live_seconds"}],
//	 "budget", "budget_left", "failures", "retry_at",
//	 "health": {"ready", "degraded", "conditions", "hang", "replace"},
//	 "readiness": {"since", "changes", "history": [{"at", "ready", "reason"}]},
//	 "last_exit", "last_failure": {"at", "epoch", "what", "exit", "lines"},
//	 "certificates": [{"path", "serial", "not_after", "fault"}],
//	 "counts", "events", "memory_bytes"}
//
// # A drain
//
// /drain makes readiness false at once, and each inbound answer of Envoy close its connection; outbound stays. It
// lasts through handovers and crashes. /undrain ends it: Envoy cannot take a drain back, so it is a handover to an
// Envoy that was not told, and readiness is true again when that one serves. One that is refused leaves the drain;
// /undrain tries again.
//
// # Metrics in one
//
// The answer is always Prometheus's text format 0.0.4, not compressed. Each source is streamed, with its own share of the
// scraper's time and a bound of its bytes. One source cannot spoil the text of the others: a line that is not valid, or cut
// short, is dropped, as is "# EOF" and a second TYPE; OpenMetrics is turned into text. At the end of the answer,
// pilotlight_agent_metrics_source_up and similar metrics name the sources that are missing.
//
// Each request is bounded in time and size. A connection serves one request, and no goroutine runs between requests.
package status
