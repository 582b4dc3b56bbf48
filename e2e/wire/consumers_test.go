//go:build wire

package wire

import (
	"fmt"
	"strings"
)

// What Flagger and Kiali ask Prometheus: their queries as they are in Flagger 1.44.0 (pkg/metrics/observers/istio.go) and in Kiali 2.31 (graph/telemetry/istio, its
// default rates, 60 seconds, without idle edges), with the values of their variables. Kiali asks with the reporter "waypoint|…" where it shows an ambient mesh too.

// flaggerSuccess and flaggerDuration are Flagger's checks of a canary, with its own blanks.
const (
	flaggerSuccess = `
	sum(
		rate(
			istio_requests_total{
				reporter="destination",
				destination_workload_namespace="{{ namespace }}",
				destination_workload=~"{{ target }}",
				response_code!~"5.*"
			}[{{ interval }}]
		)
	) 
	/ 
	sum(
		rate(
			istio_requests_total{
				reporter="destination",
				destination_workload_namespace="{{ namespace }}",
				destination_workload=~"{{ target }}"
			}[{{ interval }}]
		)
	) 
	* 100`
	flaggerDuration = `
	histogram_quantile(
		0.99,
		sum(
			rate(
				istio_request_duration_milliseconds_bucket{
					reporter="destination",
					destination_workload_namespace="{{ namespace }}",
					destination_workload=~"{{ target }}"
				}[{{ interval }}]
			)
		) by (le)
	)`
)

// flagger fills in a query of Flagger's.
func flagger(query, namespace, target string) string {
	return strings.NewReplacer("{{ namespace }}", namespace, "{{ target }}", target, "{{ interval }}", "1m").Replace(query)
}

// Kiali's labels of an edge, by what it asks for.
const (
	kialiSides = "source_cluster,source_workload_namespace,source_workload,source_canonical_service,source_canonical_revision,destination_cluster," +
		"destination_service_namespace,destination_service,destination_service_name,destination_workload_namespace,destination_workload," +
		"destination_canonical_service,destination_canonical_revision"
	kialiRequests = kialiSides + ",request_protocol,response_code,grpc_response_status,response_flags"
	kialiTCP      = "app," + kialiSides + ",response_flags"
	kialiTimes    = "le," + kialiSides + ",request_protocol"
	kialiSecurity = "source_cluster,source_workload_namespace,source_workload,source_canonical_service,source_canonical_revision,source_principal,destination_cluster," +
		"destination_service_namespace,destination_service_name,destination_workload_namespace,destination_workload,destination_canonical_service," +
		"destination_canonical_revision,destination_principal,connection_security_policy"
)

// kialiReporters are the two ways in which Kiali names a reporter, and with them the app of a report of TCP.
var kialiReporters = []struct{ reporter, app string }{{`reporter="%s"`, `app!="ztunnel",`}, {`reporter=~"waypoint|%s"`, ""}}

// kiali are its queries of a namespace's edges: of what is sent there and reaches no workload, of what its workloads get, and of what they send.
func kiali(metric, labels, app, reporter, namespace string) (unserved, incoming, outgoing string) {
	source, destination := app+fmt.Sprintf(reporter, "source"), app+fmt.Sprintf(reporter, "destination")
	unserved = fmt.Sprintf(`sum(rate(%s{%s,source_workload_namespace!="%s",destination_workload_namespace="unknown",destination_workload="unknown",destination_service=~"^.+\\.%s\\..+$"} [60s])) by (%s) > 0`,
		metric, source, namespace, namespace, labels)
	incoming = fmt.Sprintf(`sum(rate(%s{%s,destination_workload_namespace="%s"} [60s])) by (%s) > 0`, metric, destination, namespace, labels)
	outgoing = fmt.Sprintf(`sum(rate(%s{%s,source_workload_namespace="%s"} [60s])) by (%s) > 0`, metric, source, namespace, labels)
	return unserved, incoming, outgoing
}

// kialiDuration are its queries of the 95th percentile of the edges.
func kialiDuration(reporter, namespace string) (incoming, outgoing string) {
	const metric = "istio_request_duration_milliseconds_bucket"
	incoming = fmt.Sprintf(`histogram_quantile(%.2f, sum(rate(%s{%s,destination_service_namespace="%s"}[60s])) by (%s)) > 0`, .95, metric, fmt.Sprintf(reporter, "destination"), namespace, kialiTimes)
	outgoing = fmt.Sprintf(`histogram_quantile(%.2f, sum(rate(%s{%s,source_workload_namespace="%s"}[60s])) by (%s)) > 0`, .95, metric, fmt.Sprintf(reporter, "source"), namespace, kialiTimes)
	return incoming, outgoing
}

// kialiPadlock is its query of what is secure between the workloads of a namespace.
func kialiPadlock(app, reporter, namespace string) string {
	destination := fmt.Sprintf(reporter, "destination")
	return fmt.Sprintf(`(sum(rate(%s{%s,source_workload_namespace="%v"}[60s])) by (%s) > 0) OR (sum(rate(%s{%s%s,source_workload_namespace="%v"}[60s])) by (%s) > 0)`,
		"istio_requests_total", destination, namespace, kialiSecurity, "istio_tcp_sent_bytes_total", app, destination, namespace, kialiSecurity)
}

// kialiEdge reads a series as Kiali does: an edge "FROM -> TO", or why Kiali leaves it out. A label without a value is none in PromQL. It takes cluster and status of gRPC for
// unknown where they are missing, and an app that is no ztunnel's.
func kialiEdge(s series, labels string) (edge, fault string) {
	for label := range strings.SplitSeq(labels, ",") {
		switch label {
		case "source_cluster", "destination_cluster", "grpc_response_status", "app", "le":
			continue
		}
		if s.Metric[label] == "" {
			return "", "an edge has no " + label
		}
	}
	ok := func(label string) bool { v := s.Metric[label]; return v != "" && v != "unknown" }
	if ok("source_workload_namespace") && !ok("source_workload") && !ok("source_canonical_service") {
		return "", "a namespace sends, and neither a workload nor a service of it"
	}
	if _, told := s.Metric["source_cluster"]; told && ok("source_workload_namespace") && !ok("source_cluster") {
		return "", "a namespace sends from a cluster that is told and unknown"
	}
	// For an unknown cluster of the destination it takes the source's, where that is known.
	if _, told := s.Metric["destination_cluster"]; told && ok("destination_service_namespace") && !ok("destination_cluster") && !ok("source_cluster") {
		return "", "a namespace gets it in a cluster that is told and unknown"
	}
	return s.Metric["source_workload"] + " -> " + s.Metric["destination_service_name"] + " at " + s.Metric["destination_workload"], ""
}

// edges asks until Kiali would draw these edges, each with further labels that a series must have, and leave no series out.
func (p *prometheus) edges(query, labels string, want map[string]map[string]string) {
	p.t.Helper()
	p.until(query, func(got []series) bool {
		drawn := map[string]bool{}
		for _, s := range got {
			edge, fault := kialiEdge(s, labels)
			if fault != "" {
				p.t.Errorf("Kiali leaves a series out: %s: %v", fault, s.Metric)
			}
			has := want[edge] != nil
			for label, value := range want[edge] {
				has = has && s.Metric[label] == value
			}
			drawn[edge] = drawn[edge] || has
		}
		for edge := range want {
			if !drawn[edge] {
				return false
			}
		}
		return len(drawn) == len(want)
	})
}
