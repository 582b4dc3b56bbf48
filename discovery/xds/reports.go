package xds

import (
	"strings"

	typedv3 "github.com/cncf/xds/go/xds/type/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/node"
)

// reporter is the side of a request on which a proxy is that reports to its agent, by Istio's names.
type reporter string

const (
	bySource      reporter = "source"
	byDestination reporter = "destination"
)

// agentRecords is the cluster of the agent's bootstrap to which records of failed requests go: docs/design/042. Envoy refuses a listener
// that names a cluster which it does not have, so only a proxy gets them whose metadata says that it has it.
const agentRecords = "agent_records"

// reports are access logs for the agent: of requests, and of connections of TCP.
type reports struct {
	by        reporter
	what      node.Reports
	http, tcp []*accesslogv3.AccessLog
}

// reports returns the logs that a proxy's agent asks for: none by a word that is not known.
func (r reporter) reports(what node.Reports) reports {
	out := reports{by: r, what: what}
	if what == node.ReportFailures || what == node.ReportRequests {
		out.http = append(out.http, typedLog("envoy.access_loggers.http_grpc", "envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig", recorded, failed()))
		out.tcp = append(out.tcp, typedLog("envoy.access_loggers.tcp_grpc", "envoy.extensions.access_loggers.grpc.v3.TcpGrpcAccessLogConfig", recorded, flagged()))
	}
	if what == node.ReportRequests {
		out.http = append(out.http, typedLog("envoy.access_loggers.stats", "envoy.extensions.access_loggers.stats.v3.Config", counted(r, false), nil))
		out.tcp = append(out.tcp, typedLog("envoy.access_loggers.stats", "envoy.extensions.access_loggers.stats.v3.Config", counted(r, true), nil))
	}
	return out
}

func (o observed) httpLogs() []*accesslogv3.AccessLog { return joined(o.logs, o.reports.http) }
func (o observed) tcpLogs() []*accesslogv3.AccessLog  { return joined(o.logs, o.reports.tcp) }

func joined(logs, more []*accesslogv3.AccessLog) []*accesslogv3.AccessLog {
	if len(more) == 0 {
		return logs
	}
	return append(logs[:len(logs):len(logs)], more...)
}

// recorded is the configuration of a log that sends records to the agent: see agent/records.
var recorded = map[string]any{"common_config": map[string]any{
	"log_name": agentRecords, "transport_api_version": "V3", "buffer_flush_interval": "1s",
	"custom_tags":  []any{map[string]any{"tag": "cluster", "value": "%UPSTREAM_CLUSTER_RAW%"}}, // the record has it only where there is an endpoint
	"grpc_service": map[string]any{"envoy_grpc": map[string]any{"cluster_name": agentRecords}},
}}

// typedLog returns an access log whose configuration is a tree: the Go packages of its schema would add much to the program for a constant.
func typedLog(name, schema string, config map[string]any, filter *accesslogv3.AccessLogFilter) *accesslogv3.AccessLog {
	value, err := structpb.NewStruct(config)
	if err != nil {
		value = &structpb.Struct{} // constants, which can be converted
	}
	return &accesslogv3.AccessLog{
		Name: name, Filter: filter,
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: pack(&typedv3.TypedStruct{TypeUrl: "type.googleapis.com/" + schema, Value: value})},
	}
}

// flagged passes what Envoy has a flag for.
func flagged() *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{}}}
}

// failed passes requests with a flag, those with a status of 500 or more, and those that a policy may have refused, which have no flag.
func failed() *accesslogv3.AccessLogFilter {
	filters := []*accesslogv3.AccessLogFilter{
		flagged(), status(accesslogv3.ComparisonFilter_GE, 500), status(accesslogv3.ComparisonFilter_EQ, 401), status(accesslogv3.ComparisonFilter_EQ, 403),
	}
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_OrFilter{OrFilter: &accesslogv3.OrFilter{Filters: filters}}}
}

func status(op accesslogv3.ComparisonFilter_Op, code uint32) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{StatusCodeFilter: &accesslogv3.StatusCodeFilter{
		Comparison: &accesslogv3.ComparisonFilter{Op: op, Value: &corev3.RuntimeUInt32{DefaultValue: code, RuntimeKey: "agent_records.none"}},
	}}}
}

// counted is the configuration of a log that counts what ends: the agent's merger gives the counts Istio's names and labels (agent/status).
// All listeners share one scope, whose limits bound the memory whatever codes a server answers, and the log comes first that has no labels.
func counted(by reporter, tcp bool) map[string]any {
	peer := "%UPSTREAM_PEER_URI_SAN%"
	if by == byDestination {
		peer = "%DOWNSTREAM_PEER_URI_SAN%"
	}
	tags := func(more ...string) (out []any) {
		for _, pair := range append([]string{"reporter " + string(by)}, more...) {
			name, format, _ := strings.Cut(pair, " ")
			out = append(out, map[string]any{"name": name, "value_format": format})
		}
		return out
	}
	counter := func(name string, value map[string]any, tags []any) any {
		value["stat"] = map[string]any{"name": name, "tags": tags}
		return value
	}
	one := func() map[string]any { return map[string]any{"value_fixed": 1} }
	cluster, flags, certificate := "cluster %UPSTREAM_CLUSTER_RAW%", "response_flags %RESPONSE_FLAGS%", "peer "+peer
	scope := map[string]any{"prefix": "istio", "max_counters": 2000, "max_histograms": 200}
	if tcp {
		scope["sharing_name"] = "istio_tcp"
		return map[string]any{"stats_scope": scope, "counters": []any{
			counter("tcp_connections_all_total", one(), tags()),
			counter("tcp_connections_closed_total", one(), tags(cluster, flags, certificate)),
			counter("tcp_sent_bytes_total", map[string]any{"value_format": "%BYTES_SENT%"}, tags(cluster, flags, certificate)),
			counter("tcp_received_bytes_total", map[string]any{"value_format": "%BYTES_RECEIVED%"}, tags(cluster, flags, certificate)),
		}}
	}
	scope["sharing_name"] = "istio_http"
	code, protocol := "response_code %RESPONSE_CODE%", "request_protocol %PROTOCOL%"
	return map[string]any{
		"stats_scope": scope,
		"counters": []any{
			counter("requests_all_total", one(), tags()),
			counter("requests_total", one(), tags(cluster, code, flags, protocol, certificate)),
		},
		"histograms": []any{map[string]any{
			"stat": map[string]any{"name": "request_duration_milliseconds", "tags": tags(cluster, code, protocol, certificate)},
			"unit": "Milliseconds", "value_format": "%DURATION%",
		}},
	}
}
