package config

import (
	"encoding/json"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// DecodeSettings reads a file of the mesh's settings, which have no envelope: kind is MeshConfig or MeshNetworks. It
// returns nil and the problems if one is an error.
func DecodeSettings(kind, file string, data []byte) (*model.Object, []Problem) {
	k, ok := settingsKind(kind)
	if !ok {
		return nil, []Problem{{
			File: file, Severity: Error,
			Message: "is read as " + kind + ", want MeshConfig or MeshNetworks",
		}}
	}
	o := &model.Object{
		Meta: model.Meta{Kind: kind, Name: "default", Origin: model.Origin{File: file, Line: 1}},
		Spec: k.spec(),
	}
	roots, fault := documents(data)
	var problems []Problem
	switch {
	case fault != nil:
		problems = []Problem{*fault}
	case len(roots) == 0 && kind == "MeshConfig":
		problems = []Problem{{Line: 1, Severity: Error, Message: "is empty, want a MeshConfig, {} for Istio's defaults"}}
	case len(roots) > 1:
		problems = []Problem{{Line: roots[1].Line, Severity: Error, Message: "is a second document, want one " + kind}}
	case len(roots) == 1:
		problems, o.Origin.Fields = new(report).body(k,
			envelope{meta: o.Meta, spec: roots[0], specLine: roots[0].Line}, o.Spec.(proto.Message))
	}
	for i := range problems {
		problems[i].File, problems[i].Object = file, kind
		problems[i].Path = strings.TrimPrefix(problems[i].Path, "spec.")
		problems[i] = problems[i].shown()
	}
	byLine(problems)
	if HasErrors(problems) {
		return nil, problems
	}
	o.Warnings = Warnings(problems)
	return o, problems
}

func settingsKind(name string) (kind, bool) {
	switch name {
	case "MeshConfig":
		return kindFor(name, meshConfig), true
	case "MeshNetworks":
		return kindFor(name, meshNetworks), true
	default:
		return kind{}, false
	}
}

func meshConfig(f field, c *meshconfig.MeshConfig) {
	f.at("connectTimeout").duration(c.ConnectTimeout)
	f.at("meshMTLS").ciphers(c.GetMeshMTLS().GetCipherSuites())
	f.at("tlsDefaults").ciphers(c.GetTlsDefaults().GetCipherSuites())
	for i, name := range c.GetTlsDefaults().GetEcdhCurves() {
		if known := model.Curves(); !slices.Contains(known, name) {
			f.at("tlsDefaults").at("ecdhCurves").item(i).warnf("is %q, ignored%s", name, suggest(name, known))
		}
	}
	if c.GetOutboundTrafficPolicy().GetMode() == meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY_DYNAMIC_DNS {
		f.at("outboundTrafficPolicy").at("mode").warnf("is ALLOW_ANY_DYNAMIC_DNS, which is served as ALLOW_ANY")
	}
	f.at("protocolDetectionTimeout").timeout(c.ProtocolDetectionTimeout)
	f.at("dnsRefreshRate").duration(c.DnsRefreshRate)
	localitySetting(f.at("localityLbSetting"), c.LocalityLbSetting)
	retries(f.at("defaultHttpRetryPolicy"), c.DefaultHttpRetryPolicy)
	connectionPool(f.at("defaultTrafficPolicy").at("connectionPool"), c.GetDefaultTrafficPolicy().GetConnectionPool())
	outlierDetection(f.at("defaultTrafficPolicy").at("outlierDetection"),
		c.GetDefaultTrafficPolicy().GetOutlierDetection())
	if k := c.TcpKeepalive; k != nil {
		connectionPool(f, &networking.ConnectionPoolSettings{Tcp: &networking.ConnectionPoolSettings_TCPSettings{TcpKeepalive: k}})
	}
	if c.RootNamespace != "" {
		f.at("rootNamespace").label(c.RootNamespace)
	}
	f.at("defaultServiceExportTo").exportTo(c.DefaultServiceExportTo)
	f.at("defaultVirtualServiceExportTo").exportTo(c.DefaultVirtualServiceExportTo)
	f.at("defaultDestinationRuleExportTo").exportTo(c.DefaultDestinationRuleExportTo)
	for name, port := range inOrder(map[string]int32{
		"proxyListenPort":        c.ProxyListenPort,
		"proxyInboundListenPort": c.ProxyInboundListenPort,
	}) {
		if port != 0 {
			f.at(name).port(uint32(port))
		}
	}
	defaultConfig(f.at("defaultConfig"), c.GetDefaultConfig())
	if t := c.GetDefaultConfig().GetTracing(); t != nil {
		f.at("defaultConfig").at("tracing").at("sampling").percent(t.Sampling)
	}
	f.at("accessLogFile").logPath(c.AccessLogFile)
	if c.AccessLogEncoding != meshconfig.MeshConfig_JSON {
		f.at("accessLogFormat").format(c.AccessLogFormat)
	} else if c.AccessLogFormat != "" {
		var fields map[string]any
		if err := json.Unmarshal([]byte(c.AccessLogFormat), &fields); err != nil {
			f.at("accessLogFormat").errorf("is no JSON object, which accessLogEncoding JSON wants: %v", err)
		}
		f.at("accessLogFormat").format(fields)
	}
	providers(f, c)
	configSources(f.at("configSources"), c.ConfigSources)
}

// providers requires default providers that exist and can be served.
func providers(f field, c *meshconfig.MeshConfig) {
	names := unique{}
	known := map[string]*meshconfig.MeshConfig_ExtensionProvider{}
	for i, p := range c.ExtensionProviders {
		at := f.at("extensionProviders").item(i)
		if at.at("name").required(len(p.GetName())) {
			names.add(at.at("name"), p.Name)
		}
		known[p.GetName()] = p
		if z := p.GetZipkin(); z != nil {
			at.at("zipkin").at("service").host(z.Service, false)
			at.at("zipkin").at("port").port(z.Port)
		}
		if l := p.GetEnvoyFileAccessLog(); l != nil {
			at.at("envoyFileAccessLog").at("path").logPath(l.Path)
			at.at("envoyFileAccessLog").at("logFormat").at("text").format(l.GetLogFormat().GetText())
			at.at("envoyFileAccessLog").at("logFormat").at("labels").format(l.GetLogFormat().GetLabels().AsMap())
		}
		if o := p.GetOpentelemetry(); o != nil {
			at.at("opentelemetry").at("service").host(o.Service, false)
			at.at("opentelemetry").at("port").port(o.Port)
		}
		at.authorizer(p)
	}
	for i, name := range c.GetDefaultProviders().GetTracing() {
		at := f.at("defaultProviders").at("tracing").item(i)
		if p := known[name]; p == nil {
			at.errorf("is %q, which no extension provider is", name)
		} else if p.GetZipkin() == nil && p.GetOpentelemetry() == nil {
			at.warnf("is %q, which is not supported, ignored: want zipkin or opentelemetry", name)
		}
	}
	for i, name := range c.GetDefaultProviders().GetAccessLogging() {
		at := f.at("defaultProviders").at("accessLogging").item(i)
		if p := known[name]; p == nil {
			at.errorf("is %q, which no extension provider is", name)
		} else if p.GetEnvoyFileAccessLog() == nil {
			at.warnf("is %q, which is not supported, ignored: want envoyFileAccessLog", name)
		}
	}
}

func meshNetworks(f field, n *meshconfig.MeshNetworks) {
	for name, network := range inOrder(n.Networks) {
		at := f.at("networks").key(name)
		for i, e := range network.GetEndpoints() {
			if e.GetFromCidr() != "" {
				at.at("endpoints").item(i).at("fromCidr").subnet(e.GetFromCidr())
			}
		}
		for i, g := range network.GetGateways() {
			at.at("gateways").item(i).at("port").port(g.GetPort())
			if g.GetAddress() != "" {
				at.at("gateways").item(i).at("address").ip(g.GetAddress())
			}
		}
	}
}
