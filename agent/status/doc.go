// Package status is the agent's HTTP interface: its own state, the application's probes and metrics, and the front of
// Envoy's admin.
//
//	:15020           ── Handler ──▶ Document: a copy of the agent's state
//	  GET  /healthz/ready[?verbose]   200 if the proxy serves and is to receive work, else 503 and the reasons
//	  GET  /healthz/live              the agent's loop answers within a second, and has not given up
//	  GET  /status                    everything, as JSON
//	  GET  /                          a page for people; from 127.0.0.1 and ::1 only
//	  GET  /why                       why requests failed, as JSON; from 127.0.0.1 and ::1 only
//	  GET  /metrics                   the agent's own, for Prometheus
//	  GET  /stats/prometheus          Envoy's, the agent's and the application's, in one: agent/metrics
//	  GET  /app-health/NAME/livez     the application's probe: HTTP, TCP or gRPC; agent/probe sends it
//	  POST /drain, /undrain           out of service, and back; from 127.0.0.1 and ::1 only
//	  POST /quitquitquit              like SIGTERM; from the same addresses only
//	127.0.0.1:15000  ── Front: GET and HEAD ──▶ Unix socket of the epoch that serves
//	agent-TOKEN.sock ── Owner ──▶ both: the port's for Host agent; the admin's, and a few POST requests, for Host envoy
//
// Envoy's admin has no authentication and can end the process, so it listens on a socket that only its owner may open,
// one per epoch. The front forwards reads from the usual admin port. Requests that change something, such as log
// levels, go through the slot's own socket, which only the agent's user and root can use: any user, and any page in a
// browser, can send requests to a port.
//
// # Envoy as a client
//
// A route may lead to any endpoint that discovery names, so a client outside may send requests through Envoy to all of
// these. They come from a local address, with headers as the route sets them. So the agent looks for the owner of the
// peer's socket before it accepts a write or shows the admin: Envoy gets what a stranger gets. If nobody can tell, the
// request is refused. agent.sock refuses its own Envoys by their pid, and its name cannot be guessed.
//
// # Bounds
//
// A port accepts every connection, and holds 96 at most: 16 from this host; 16 from the node, whose kubelet sends
// probes (HOST_IP, the gateways of the default routes, and the pod's own addresses); 64 from other sources, 8 from each
// of them. It holds fewer if the process may open fewer than 512 files. If the connections of a kind are at their
// limit, the port closes the oldest connection that has not sent its request yet, of the source that has most. So a
// probe is answered while other clients hold connections open.
//
// # Shapes
//
// Three documents are for programs; their keys are stable. Times are RFC 3339, missing ones are left out.
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
//	 "health": {"ready", "degraded", "conditions", "discovery", "last_good", "hang", "replace"},
//	 "readiness": {"since", "changes", "history": [{"at", "ready", "reason"}]},
//	 "last_exit", "last_failure": {"at", "epoch", "what", "exit", "lines"},
//	 "certificates": [{"path", "serial", "not_after", "fault"}],
//	 "counts", "events", "memory_bytes"}
//
//	/why:
//	{"at", "epoch", "since", "findings": [{"flag", "kind", "where", "counter", "what", "count", "text", "instead"}],
//	 "requests": [{"at", "flags", "code", "method", "authority", "path", "client", "cluster", "endpoint", "route", "details", "reason", "tries", "took_ms",
//	               "text", "instead"}], "recorded_since", "lacks": [text]}
//
// # A drain
//
// /drain makes readiness false at once, and makes Envoy close each inbound connection with its next answer; outbound
// connections stay. The drain lasts through handovers and crashes. /undrain ends it: Envoy cannot undo a drain, so the
// agent hands over to a new Envoy that is not drained, and readiness is true again when the new Envoy serves. If that
// handover is refused, the drain stays; a further /undrain tries again.
//
// Each request is bounded in time and size. A connection serves one request, and no goroutine runs between requests.
package status
