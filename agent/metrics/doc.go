// Package metrics joins the metrics of Envoy, the agent and the application into one text for Prometheus.
//
//	scraper ── Handler ─┬─▶ Envoy's admin      "istio." stats get Istio's names and labels: docs/design/042
//	                    ├─▶ Config.Agent       the agent's own, written with Writer
//	                    └─▶ Application        at the proxy's own address, then at loopback: agent/probe
//
// The answer is always Prometheus's text format 0.0.4, not compressed. Each source is streamed, with its own share of
// the scraper's time and a limit of its bytes. One source cannot make the text of the others invalid: a line that is
// not valid, or that is cut short, is dropped, as are "# EOF" and a second TYPE; OpenMetrics is converted to text. At
// the end of the answer, pilotlight_agent_metrics_source_up and similar metrics name the missing sources.
//
// It keeps no metrics, does not count anything but the failures of its sources, and opens no port: agent/status does.
package metrics
