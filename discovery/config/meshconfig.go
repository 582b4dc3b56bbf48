package config

import (
	"encoding/json"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

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
		extensionProvider(at, p)
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

// headerPattern is the name of a header, with * before or behind it for any further text.
var headerPattern = regexp.MustCompile("^([-!#$%&'+.^_`|~0-9a-zA-Z]+\\*?|\\*[-!#$%&'+.^_`|~0-9a-zA-Z]+)$")

// extensionProvider requires a provider for authorization that Envoy can ask.
func extensionProvider(f field, p *meshconfig.MeshConfig_ExtensionProvider) {
	if h := p.GetEnvoyExtAuthzHttp(); h != nil {
		at := f.at("envoyExtAuthzHttp")
		older := h.IncludeHeadersInCheck //lint:ignore SA1019 it is the older name of includeRequestHeadersInCheck
		externalAuthorization(at, h.Service, h.Port, h.Timeout, h.StatusOnError, h.IncludeRequestBodyInCheck)
		if h.PathPrefix != "" && !strings.HasPrefix(h.PathPrefix, "/") {
			at.at("pathPrefix").errorf("is %q, want / before it", h.PathPrefix)
		}
		at.at("pathPrefix").text(h.PathPrefix)
		for name, list := range inOrder(map[string][]string{
			"includeHeadersInCheck": older, "includeRequestHeadersInCheck": h.IncludeRequestHeadersInCheck,
			"headersToUpstreamOnAllow": h.HeadersToUpstreamOnAllow, "headersToDownstreamOnDeny": h.HeadersToDownstreamOnDeny,
			"headersToDownstreamOnAllow": h.HeadersToDownstreamOnAllow,
		}) {
			for i, v := range list {
				if !headerPattern.MatchString(v) {
					at.at(name).item(i).errorf("is %q, want the name of a header, the prefix X* or the suffix *X of names", v)
				}
			}
		}
		if len(older) > 0 && len(h.IncludeRequestHeadersInCheck) > 0 {
			at.at("includeHeadersInCheck").warnf("is ignored beside includeRequestHeadersInCheck, its newer name")
		}
		for name, value := range inOrder(h.IncludeAdditionalHeadersInCheck) {
			to := at.at("includeAdditionalHeadersInCheck").key(name)
			to.plainHeader(name)
			to.text(value)
		}
	}
	if g := p.GetEnvoyExtAuthzGrpc(); g != nil {
		externalAuthorization(f.at("envoyExtAuthzGrpc"), g.Service, g.Port, g.Timeout, g.StatusOnError,
			g.IncludeRequestBodyInCheck)
	}
}

// externalAuthorization requires what providers of HTTP and of gRPC have.
func externalAuthorization(f field, service string, port uint32, timeout *durationpb.Duration, status string,
	body *meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationRequestBody,
) {
	namespace, host, both := strings.Cut(service, "/")
	if !both {
		host = service
	} else {
		f.at("service").label(namespace)
	}
	f.at("service").host(host, false)
	f.at("port").port(port)
	f.at("timeout").duration(timeout)
	if _, fault := model.ParseErrorStatus(status); fault != "" {
		f.at("statusOnError").errorf("%s", fault)
	}
	if body != nil && body.MaxRequestBytes == 0 {
		f.at("includeRequestBodyInCheck").at("maxRequestBytes").errorf("is 0, want 1 or more")
	}
}

// certificateAttributes are the conditions that Istio does not take in CUSTOM policies: those about who the client or
// its token is.
var certificateAttributes = []model.Attribute{
	model.SourcePrincipal, model.SourceNamespace, model.SourceAccount, model.SourceDomain,
	model.RequestPrincipal, model.RequestAudiences, model.RequestPresenter, model.RequestClaims,
}

// customPolicy requires what a CUSTOM policy has beside its rules.
func customPolicy(f field, p *security.AuthorizationPolicy) {
	if p.GetProvider().GetName() == "" {
		f.at("provider").at("name").errorf("is missing: want the name of an extension provider of MeshConfig, which is asked")
	}
	if f.report.dryRun {
		f.at("action").warnf("is CUSTOM under the annotation %s: nobody is asked, and nobody is kept out", dryRunAnnotation)
	}
	for i, r := range p.Rules {
		at := f.at("rules").item(i)
		for j, from := range r.GetFrom() {
			s := from.GetSource().ProtoReflect()
			for k := range s.Descriptor().Fields().Len() {
				fd := s.Descriptor().Fields().Get(k)
				if s.Get(fd).List().Len() > 0 &&
					slices.Contains(certificateAttributes, attributeOf(fd.JSONName(), sourceFields)) {
					at.at("from").item(j).at("source").at(fd.JSONName()).errorf("is about the client's identity or token, which CUSTOM does not take: want ipBlocks or remoteIpBlocks, or leave it to the provider")
				}
			}
		}
		for j, w := range r.GetWhen() {
			c, known := model.ParseCondition(w.GetKey())
			if known && slices.Contains(certificateAttributes, c.Attribute) {
				at.at("when").item(j).at("key").errorf("is %s, about the client's identity or token, which CUSTOM does not take: leave it to the provider", w.Key)
			}
		}
	}
}

// ConfigSource is a further source of objects, as MeshConfig names it.
type ConfigSource struct {
	URL    string // as written
	Scheme string // xds, fs or k8s
	Place  string // host:port, a directory, or the text after k8s://
	TLS    *networking.ClientTLSSettings
}

// ConfigSources returns the sources that an object with a MeshConfig names, each address once; none for any other
// object.
func ConfigSources(o *model.Object) []ConfigSource {
	settings, _ := o.Spec.(*meshconfig.MeshConfig)
	var out []ConfigSource
	seen := map[string]bool{}
	for _, c := range settings.GetConfigSources() {
		if s, fault := parseConfigSource(c.GetAddress()); fault == "" && !seen[s.URL] {
			seen[s.URL] = true
			s.TLS = c.TlsSettings
			out = append(out, s)
		}
	}
	return out
}

// parseConfigSource returns the source of an address, or the fault of the address; "" for no fault.
func parseConfigSource(address string) (ConfigSource, string) {
	const want = "want xds://host:port, fs:///directory or k8s://"
	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return ConfigSource{}, want
	}
	s := ConfigSource{URL: address, Scheme: u.Scheme}
	switch u.Scheme {
	case "xds":
		if port, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || port == 0 || u.Hostname() == "" || u.Path != "" {
			return s, "want xds://host:port"
		}
		s.Place = u.Host
	case "fs":
		if u.Host != "" || !filepath.IsAbs(u.Path) {
			return s, "want fs:///directory, with three slashes"
		}
		s.Place = filepath.Clean(u.Path)
	case "k8s":
		s.Place = strings.TrimPrefix(address, "k8s://")
	default:
		return s, want
	}
	return s, ""
}

func configSources(f field, sources []*meshconfig.ConfigSource) {
	seen := unique{}
	for i, c := range sources {
		at := f.item(i)
		s, fault := parseConfigSource(c.GetAddress())
		if fault != "" {
			at.at("address").errorf("is %q, %s", c.GetAddress(), fault)
			continue
		}
		seen.add(at.at("address"), c.GetAddress())
		tls := c.GetTlsSettings()
		if tls == nil {
			continue
		}
		t := at.at("tlsSettings")
		switch mode := tls.Mode; {
		case s.Scheme != "xds":
			t.warnf("is of %s, ignored: want it with xds://", s.URL)
		case mode == networking.ClientTLSSettings_MUTUAL && (tls.ClientCertificate == "" || tls.PrivateKey == ""):
			t.errorf("has mode MUTUAL, want the files clientCertificate and privateKey")
		case mode == networking.ClientTLSSettings_ISTIO_MUTUAL:
			t.at("mode").errorf("is ISTIO_MUTUAL, want DISABLE, SIMPLE, or MUTUAL with files")
		}
	}
}

// SettingsKeys are the kinds of settings in a ConfigMap, by its keys.
func SettingsKeys() map[string]string {
	return map[string]string{"mesh": "MeshConfig", "meshNetworks": "MeshNetworks"}
}

// OfConfigMap is what a ConfigMap in a file says of the mesh's settings.
type OfConfigMap struct {
	Line     int // of the object
	Problems []Problem
}

// ConfigMaps judges the ConfigMaps of a file that hold settings of the mesh, in a key mesh. Their lines are those of the file.
func ConfigMaps(file string, data []byte) (out []OfConfigMap) {
	roots, fault := anyDocuments(data)
	if fault != nil {
		return nil // the file is judged elsewhere
	}
	for _, root := range roots {
		if scalarAt(root, "kind") != "ConfigMap" || scalarAt(root, "apiVersion") != "v1" || child(child(root, "data"), "mesh") == nil {
			continue
		}
		found := OfConfigMap{Line: root.Line}
		for key, kind := range SettingsKeys() {
			value := child(child(root, "data"), key)
			if value == nil {
				continue
			}
			_, problems := DecodeSettings(kind, file, []byte(value.Value))
			for _, p := range problems {
				if value.Style == yaml.LiteralStyle {
					p.Line += value.Line
				} else {
					p.Line = value.Line
				}
				p.Object = "ConfigMap " + scalarAt(child(root, "metadata"), "name")
				p.Path = strings.TrimSuffix("data."+key+"."+p.Path, ".")
				found.Problems = append(found.Problems, p)
			}
		}
		byLine(found.Problems)
		out = append(out, found)
	}
	return out
}

// child returns the value of a key, nil for none.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// scalarAt returns the text of a key, "" for none.
func scalarAt(n *yaml.Node, key string) string {
	if value := child(n, key); value != nil && value.Kind == yaml.ScalarNode {
		return value.Value
	}
	return ""
}
