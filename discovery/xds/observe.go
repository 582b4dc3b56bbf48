package xds

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	detectorsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/tracers/opentelemetry/resource_detectors/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pilotlight/pilotlight/discovery/model"
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
