package xds

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	typedv3 "github.com/cncf/xds/go/xds/type/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	accesslogdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	detectorsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/tracers/opentelemetry/resource_detectors/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

// logFormat is Istio's default format of a line.
const logFormat = `[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% ` +
	`%RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% ` +
	`"%UPSTREAM_TRANSPORT_FAILURE_REASON%" %BYTES_RECEIVED% %BYTES_SENT% %DURATION% ` +
	`%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" ` +
	`"%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" %UPSTREAM_CLUSTER_RAW% %UPSTREAM_LOCAL_ADDRESS% ` +
	`%DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% %REQUESTED_SERVER_NAME% %ROUTE_NAME%` + "\n"

// logFields is Istio's default for JSON lines.
func logFields() map[string]any {
	return map[string]any{
		"start_time": "%START_TIME%", "method": "%REQ(:METHOD)%", "path": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
		"protocol": "%PROTOCOL%", "response_code": "%RESPONSE_CODE%", "response_flags": "%RESPONSE_FLAGS%",
		"response_code_details": "%RESPONSE_CODE_DETAILS%", "bytes_received": "%BYTES_RECEIVED%",
		"bytes_sent": "%BYTES_SENT%",
		"duration":   "%DURATION%", "user_agent": "%REQ(USER-AGENT)%", "request_id": "%REQ(X-REQUEST-ID)%",
		"authority": "%REQ(:AUTHORITY)%", "upstream_host": "%UPSTREAM_HOST%",
		"upstream_cluster":          "%UPSTREAM_CLUSTER_RAW%",
		"downstream_remote_address": "%DOWNSTREAM_REMOTE_ADDRESS%", "route_name": "%ROUTE_NAME%",
		"requested_server_name": "%REQUESTED_SERVER_NAME%",
	}
}

// accessLogs returns the mesh's access log, and the access logs of the default providers.
func accessLogs(mesh model.Settings) []*accesslogv3.AccessLog {
	var out []*accesslogv3.AccessLog
	if path := mesh.Config.GetAccessLogFile(); path != "" {
		log := &filelogv3.FileAccessLog{Path: path}
		if mesh.Config.AccessLogEncoding == meshconfig.MeshConfig_JSON {
			fields := logFields()
			if format := mesh.Config.AccessLogFormat; format != "" {
				fields = map[string]any{}
				_ = json.Unmarshal([]byte(format), &fields) // validated
			}
			log.AccessLogFormat = formatJSON(fields)
		} else {
			log.AccessLogFormat = formatText(cmp.Or(mesh.Config.AccessLogFormat, logFormat))
		}
		out = append(out, fileLog(log))
	}
	for _, name := range mesh.Config.GetDefaultProviders().GetAccessLogging() {
		provider := providerNamed(mesh, name).GetEnvoyFileAccessLog()
		if provider == nil {
			continue
		}
		log := &filelogv3.FileAccessLog{Path: cmp.Or(provider.Path, "/dev/stdout")}
		if labels := provider.GetLogFormat().GetLabels(); labels != nil {
			fields := labels.AsMap()
			if len(fields) == 0 {
				fields = logFields()
			}
			log.AccessLogFormat = formatJSON(fields)
		} else {
			log.AccessLogFormat = formatText(cmp.Or(provider.GetLogFormat().GetText(), logFormat))
		}
		out = append(out, fileLog(log))
	}
	return out
}

func fileLog(log *filelogv3.FileAccessLog) *accesslogv3.AccessLog {
	return &accesslogv3.AccessLog{
		Name: "envoy.access_loggers.file", ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: pack(log)},
	}
}

// formatText adds a newline to a format that does not end with one.
func formatText(format string) *filelogv3.FileAccessLog_LogFormat {
	if !strings.HasSuffix(format, "\n") {
		format += "\n"
	}
	return &filelogv3.FileAccessLog_LogFormat{LogFormat: &corev3.SubstitutionFormatString{
		Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
			Specifier: &corev3.DataSource_InlineString{InlineString: format},
		}},
	}}
}

func formatJSON(fields map[string]any) *filelogv3.FileAccessLog_LogFormat {
	format, err := structpb.NewStruct(fields)
	if err != nil {
		format = &structpb.Struct{} // fields were parsed from JSON, so they can be converted
	}
	return &filelogv3.FileAccessLog_LogFormat{LogFormat: &corev3.SubstitutionFormatString{
		Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: format},
	}}
}

func providerNamed(mesh model.Settings, name string) *meshconfig.MeshConfig_ExtensionProvider {
	providers := mesh.Config.GetExtensionProviders()
	i := slices.IndexFunc(providers,
		func(p *meshconfig.MeshConfig_ExtensionProvider) bool { return p.GetName() == name })
	if i < 0 {
		return nil
	}
	return providers[i]
}

// tracerOf returns the first default provider that is supported and whose collector is visible to the namespace, or nil
// if there is none: Envoy rejects a listener that sends spans to a cluster that does not exist.
func tracerOf(m *model.Mesh, namespace string) *meshconfig.MeshConfig_ExtensionProvider {
	known := func(host string, port uint32) bool {
		s := m.VisibleService(m.Settings().Domain.Qualify(host, "default"), namespace)
		if s == nil {
			return false
		}
		p, ok := s.Port(port)
		return ok && p.Protocol != model.UDP
	}
	for _, name := range m.Settings().Config.GetDefaultProviders().GetTracing() {
		p := providerNamed(m.Settings(), name)
		if p.GetZipkin() != nil && known(p.GetZipkin().Service, p.GetZipkin().Port) ||
			p.GetOpentelemetry() != nil && known(p.GetOpentelemetry().Service, p.GetOpentelemetry().Port) {
			return p
		}
	}
	return nil
}

// tracing returns the configuration that sends spans to a tracer. Without one, if MeshConfig enables tracing, spans are
// sent to the collector in the proxy's own bootstrap, if it has one.
func tracing(mesh model.Settings, tracer *meshconfig.MeshConfig_ExtensionProvider) *hcmv3.HttpConnectionManager_Tracing {
	switch {
	case tracer.GetZipkin() != nil:
		return traced(mesh, zipkin(mesh.Domain, tracer.GetZipkin()))
	case tracer.GetOpentelemetry() != nil:
		return traced(mesh, openTelemetry(mesh.Domain, tracer.GetOpentelemetry()))
	case mesh.Config.GetEnableTracing():
		return traced(mesh, nil)
	default:
		return nil
	}
}

func traced(mesh model.Settings, provider *tracev3.Tracing_Http) *hcmv3.HttpConnectionManager_Tracing {
	sampling := 1.0 // percent, Istio's default
	if t := mesh.Config.GetDefaultConfig().GetTracing(); t != nil && t.Sampling != 0 {
		sampling = t.Sampling
	}
	return &hcmv3.HttpConnectionManager_Tracing{
		Provider:       provider,
		ClientSampling: &typev3.Percent{Value: 100}, OverallSampling: &typev3.Percent{Value: 100},
		RandomSampling:    &typev3.Percent{Value: sampling},
		SpawnUpstreamSpan: wrapperspb.Bool(false),
	}
}

func zipkin(d model.Domain, p *meshconfig.MeshConfig_ExtensionProvider_ZipkinTracingProvider) *tracev3.Tracing_Http {
	return traceProvider("envoy.tracers.zipkin", &tracev3.ZipkinConfig{
		CollectorCluster:         outboundName(p.Port, "", d.Qualify(p.Service, "default")),
		CollectorHostname:        p.Service, // Envoy's default is the name of the cluster, which is not a host
		CollectorEndpoint:        cmp.Or(p.Path, "/api/v2/spans"),
		CollectorEndpointVersion: tracev3.ZipkinConfig_HTTP_JSON,
		TraceId_128Bit:           !p.Enable_64BitTraceId,
		SharedSpanContext:        wrapperspb.Bool(false),
	})
}

func openTelemetry(d model.Domain, p *meshconfig.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider) *tracev3.Tracing_Http {
	cluster := outboundName(p.Port, "", d.Qualify(p.Service, "default"))
	config := &tracev3.OpenTelemetryConfig{ResourceDetectors: []*corev3.TypedExtensionConfig{{
		// OTEL_RESOURCE_ATTRIBUTES sets the service name of the spans, as for any program, so that workloads share
		// listeners.
		Name:        "envoy.tracers.opentelemetry.resource_detectors.environment",
		TypedConfig: pack(&detectorsv3.EnvironmentResourceDetectorConfig{}),
	}}}
	if http := p.GetHttp(); http != nil {
		config.HttpService = &corev3.HttpService{HttpUri: &corev3.HttpUri{
			Uri:              "http://" + p.Service + "/" + trimSlash(cmp.Or(http.Path, "/v1/traces")),
			HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: cluster},
			Timeout:          http.Timeout,
		}}
		if config.HttpService.HttpUri.Timeout == nil {
			config.HttpService.HttpUri.Timeout = defaultTraceTimeout()
		}
	} else {
		config.GrpcService = &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
			EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster, Authority: p.Service},
		}}
	}
	return traceProvider("envoy.tracers.opentelemetry", config)
}

func traceProvider(name string, config proto.Message) *tracev3.Tracing_Http {
	return &tracev3.Tracing_Http{Name: name, ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: pack(config)}}
}

func defaultTraceTimeout() *durationpb.Duration { return durationpb.New(10 * time.Second) }

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

	refused []*accesslogv3.AccessLog // of connections that reach no filter, so that no other log has them
}

// reports returns the logs that a proxy's agent asks for: none by a word that is not known.
func (r reporter) reports(what node.Reports) reports {
	out := reports{by: r, what: what}
	if what == node.ReportFailures || what == node.ReportRequests {
		const tcp = "envoy.extensions.access_loggers.grpc.v3.TcpGrpcAccessLogConfig"
		cluster := recorded("cluster", "%UPSTREAM_CLUSTER_RAW%") // the record has it only where there is an endpoint
		out.http = append(out.http, typedLog("envoy.access_loggers.http_grpc", "envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig", cluster, failed()))
		out.tcp = append(out.tcp, typedLog("envoy.access_loggers.tcp_grpc", tcp, cluster, flagged()))
		out.refused = append(out.refused, typedLog("envoy.access_loggers.tcp_grpc", tcp, recorded("listener", "%DOWNSTREAM_LOCAL_ADDRESS%"), refused()))
	}
	if what == node.ReportRequests {
		out.http = append(out.http, statsLog(r.requests(), nil))
		out.tcp = append(out.tcp, statsLog(r.opened(), opened()), statsLog(r.closed(), ended()))
	}
	return out
}

func (o observed) httpLogs() []*accesslogv3.AccessLog { return joined(o.logs, o.reports.http) }

// tcpLogs returns the logs of connections. Where these are logged at their beginning too, the mesh's own logs have the end alone, as ever.
func (o observed) tcpLogs() []*accesslogv3.AccessLog {
	logs := o.logs
	if o.tcpOptions() != nil {
		logs = nil
		for _, log := range o.logs {
			log = proto.CloneOf(log)
			log.Filter = ended()
			logs = append(logs, log)
		}
	}
	return joined(logs, o.reports.tcp)
}

// tcpOptions has connections logged when the server's is made, too, if that is counted.
func (o observed) tcpOptions() *tcpproxyv3.TcpProxy_TcpAccessLogOptions {
	if o.reports.what != node.ReportRequests {
		return nil
	}
	return &tcpproxyv3.TcpProxy_TcpAccessLogOptions{FlushAccessLogOnConnected: true}
}

func joined(logs, more []*accesslogv3.AccessLog) []*accesslogv3.AccessLog {
	if len(more) == 0 {
		return logs
	}
	return append(logs[:len(logs):len(logs)], more...)
}

// recorded is the configuration of a log that sends records to the agent: see agent/records.
func recorded(tag, value string) map[string]any {
	return map[string]any{"common_config": map[string]any{
		"log_name": agentRecords, "transport_api_version": "V3", "buffer_flush_interval": "1s",
		"custom_tags":  []any{map[string]any{"tag": tag, "value": value}},
		"grpc_service": map[string]any{"envoy_grpc": map[string]any{"cluster_name": agentRecords}},
	}}
}

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

// flagged passes what Envoy has one of these flags for; any, if none is given.
func flagged(flags ...string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: flags}}}
}

// addRefused adds to a listener that speaks TLS the log of connections whose handshake fails, or that no filter chain takes.
func (o observed) addRefused(l *listenerv3.Listener) {
	if slices.ContainsFunc(l.FilterChains, func(c *listenerv3.FilterChain) bool {
		return c.TransportSocket != nil || len(c.GetFilterChainMatch().GetServerNames()) > 0
	}) {
		l.AccessLog = joined(l.AccessLog, o.reports.refused)
	}
}

// refused passes connections with Envoy's reason why the client's TLS failed, which have no flag, and those that no filter chain takes.
func refused() *accesslogv3.AccessLogFilter {
	failed, _ := structpb.NewStruct(map[string]any{"expression": "connection.transport_failure_reason != ''"}) // it is a text
	schema := "type.googleapis.com/envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter"
	reason := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{ExtensionFilter: &accesslogv3.ExtensionFilter{
		Name:       "envoy.access_loggers.extension_filters.cel",
		ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{TypedConfig: pack(&typedv3.TypedStruct{TypeUrl: schema, Value: failed})},
	}}}
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_OrFilter{OrFilter: &accesslogv3.OrFilter{
		Filters: []*accesslogv3.AccessLogFilter{flagged("NR"), reason},
	}}}
}

// ended passes connections of TCP that have ended, and opened each connection once: when the server's is made, or at the end of one for
// which there never was one. So what is opened and not closed is open.
func ended() *accesslogv3.AccessLogFilter {
	return ofType(accesslogdatav3.AccessLogType_TcpConnectionEnd)
}

func opened() *accesslogv3.AccessLogFilter {
	never := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{AndFilter: &accesslogv3.AndFilter{
		Filters: []*accesslogv3.AccessLogFilter{ended(), flagged("UF", "UH", "UO", "URX", "NC", "NR")},
	}}}
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_OrFilter{OrFilter: &accesslogv3.OrFilter{
		Filters: []*accesslogv3.AccessLogFilter{ofType(accesslogdatav3.AccessLogType_TcpUpstreamConnected), never},
	}}}
}

func ofType(t accesslogdatav3.AccessLogType) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_LogTypeFilter{
		LogTypeFilter: &accesslogv3.LogTypeFilter{Types: []accesslogdatav3.AccessLogType{t}},
	}}
}

// failed passes requests with a flag, those with a status of 500 or more, and those that a policy may have refused, which have no flag: 401 and 403, or
// the same in grpc-status, beside the 200 that Envoy answers to gRPC. Where a response has no grpc-status this filter makes one of the status of HTTP.
func failed() *accesslogv3.AccessLogFilter {
	atLeast := &accesslogv3.ComparisonFilter{Op: accesslogv3.ComparisonFilter_GE, Value: &corev3.RuntimeUInt32{DefaultValue: 500, RuntimeKey: "agent_records.none"}}
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_OrFilter{OrFilter: &accesslogv3.OrFilter{Filters: []*accesslogv3.AccessLogFilter{
		flagged(),
		{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{StatusCodeFilter: &accesslogv3.StatusCodeFilter{Comparison: atLeast}}},
		{FilterSpecifier: &accesslogv3.AccessLogFilter_GrpcStatusFilter{GrpcStatusFilter: &accesslogv3.GrpcStatusFilter{
			Statuses: []accesslogv3.GrpcStatusFilter_Status{accesslogv3.GrpcStatusFilter_UNAUTHENTICATED, accesslogv3.GrpcStatusFilter_PERMISSION_DENIED},
		}}},
	}}}}
}

func statsLog(config map[string]any, filter *accesslogv3.AccessLogFilter) *accesslogv3.AccessLog {
	return typedLog("envoy.access_loggers.stats", "envoy.extensions.access_loggers.stats.v3.Config", config, filter)
}

// requests is the configuration of a log that counts requests: the agent's merger gives the counts Istio's names and labels (agent/status).
// The log comes first that has no labels: it counts also what has no room below the limits.
func (r reporter) requests() map[string]any {
	return map[string]any{
		"stats_scope": scope("http"),
		"counters": []any{
			one("requests_all_total", string(r)),
			one("requests_total", r.of("%RESPONSE_CODE%", "%RESPONSE_FLAGS%", "%PROTOCOL%")),
		},
		"histograms": []any{map[string]any{
			"stat": stat("request_duration_milliseconds", r.of("%RESPONSE_CODE%", ".", "%PROTOCOL%")),
			"unit": "Milliseconds", "value_format": "%DURATION%",
		}},
	}
}

// opened and closed are those of logs that count connections of TCP.
func (r reporter) opened() map[string]any {
	return map[string]any{"stats_scope": scope("tcp"), "counters": []any{one("tcp_connections_opened_total", r.ofTCP())}}
}

func (r reporter) closed() map[string]any {
	return map[string]any{"stats_scope": scope("tcp"), "counters": []any{
		one("tcp_connections_all_total", string(r)),
		one("tcp_connections_closed_total", r.ofTCP()),
		map[string]any{"stat": stat("tcp_sent_bytes_total", r.ofTCP()), "value_format": "%BYTES_SENT%"},
		map[string]any{"stat": stat("tcp_received_bytes_total", r.ofTCP()), "value_format": "%BYTES_RECEIVED%"},
	}}
}

// of is all that is told of a request, in one text: each tag of its own would cost the listener 50 bytes. A "." stands for what is not told.
// Behind the cluster are the certificates of a connection with mutual TLS, the proxy's own and that of the other side.
func (r reporter) of(code, flags, protocol string) string {
	certificates := "%UPSTREAM_LOCAL_URI_SAN% %UPSTREAM_PEER_URI_SAN%"
	if r == byDestination {
		certificates = "%DOWNSTREAM_LOCAL_URI_SAN% %DOWNSTREAM_PEER_URI_SAN%"
	}
	return strings.Join([]string{string(r), code, flags, protocol, "%UPSTREAM_CLUSTER_RAW%", certificates}, " ")
}

func (r reporter) ofTCP() string { return r.of(".", "%RESPONSE_FLAGS%", ".") }

// scope is what all listeners share. Its limits bound the memory, whatever codes a server answers.
func scope(name string) map[string]any {
	return map[string]any{"prefix": "istio", "sharing_name": "istio_" + name, "max_counters": 2000, "max_histograms": 200}
}

func one(name, of string) any { return map[string]any{"stat": stat(name, of), "value_fixed": 1} }

func stat(name, of string) map[string]any {
	return map[string]any{"name": name, "tags": []any{map[string]any{"name": "of", "value_format": of}}}
}
