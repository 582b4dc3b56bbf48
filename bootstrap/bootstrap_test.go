package bootstrap

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
	"github.com/pilotlight/pilotlight/internal/golden"
	"github.com/pilotlight/pilotlight/node"
	"github.com/pilotlight/pilotlight/templates"
)

func sidecar() Params {
	return Params{
		Node: node.ID{
			Role: node.Sidecar, IP: "127.0.0.13", Name: "reviews-v1.default", Domain: "default.svc.cluster.local",
		},
		Cluster:   "reviews",
		Discovery: Discovery{Address: Address{"127.0.0.1", 15010}, ConnectTimeout: time.Second},
		Metadata: node.Metadata{
			Namespace: "default", Labels: map[string]string{"app": "reviews"}, InterceptionMode: node.None, HTTPProxyPort: 15103,
			InstanceIPs: []string{"127.0.0.13"}, Extra: map[string]any{"ISTIO_VERSION": "1.0.0"},
		},
	}
}

const secretsSocket = "/etc/istio/proxy/sds.sock"

func mutualTLS() *TLS {
	return &TLS{
		Chain: "/etc/certs/cert-chain.pem", Key: "/etc/certs/key.pem", Roots: "/etc/certs/root-cert.pem",
		SAN: "spiffe://cluster.local/ns/istio-system/sa/istio-pilot-service-account",
	}
}

// options are the golden files of a sidecar, each with one thing more.
var options = map[string]func(p *Params){
	"nothing more": func(*Params) {},
	"discovery by name": func(p *Params) {
		p.Discovery.Host, p.Discovery.ConnectTimeout = "istio-pilot.istio-system", 1500*time.Millisecond
		p.Metadata = node.Metadata{}
	},
	"discovery by name with mutual TLS": func(p *Params) {
		p.Discovery.Host, p.Discovery.TLS = "istio-pilot.istio-system", mutualTLS()
		p.SecretsSocket = secretsSocket
	},
	"discovery by IPv6": func(p *Params) { p.Discovery.Host = "2001:db8::1" },
	"DNS name of discovery, certificates in two directories": func(p *Params) {
		p.Discovery.TLS, p.SecretsSocket = mutualTLS(), secretsSocket
		p.Discovery.TLS.SAN, p.Discovery.TLS.Key = "pilot.example", "/etc/certs/private/key.pem"
	},
	"a relay to discovery": func(p *Params) {
		p.Discovery.Host, p.Discovery.TLS, p.SecretsSocket = "istio-pilot.istio-system", mutualTLS(), secretsSocket
		p.Discovery.Variant, p.Discovery.Socket = Delta, "/etc/istio/proxy/ads.sock"
	},
	"secrets by the agent": func(p *Params) { p.SecretsSocket = secretsSocket },
	"locality":             func(p *Params) { p.Locality = ParseLocality("europe/a/1") },
	"zipkin":               func(p *Params) { p.Zipkin = Address{"zipkin.istio-system", 9411} },
	"opentelemetry":        func(p *Params) { p.OpenTelemetry = Address{"collector.istio-system", 4317} },
	"statsd":               func(p *Params) { p.Statsd = Address{"10.0.0.9", 8125} },
	"metrics service":      func(p *Params) { p.MetricsService = Address{"metrics.istio-system", 15000} },
	"access log service":   func(p *Params) { p.AccessLogService = Address{"logs.istio-system", 15000} },
	"both sinks": func(p *Params) {
		p.Statsd, p.MetricsService = Address{"::1", 8125}, Address{"10.0.0.9", 15000}
	},
	"stats": func(p *Params) {
		p.Stats = Stats{
			InclusionPrefixes: []string{"http.inbound", "tcp."}, InclusionSuffixes: []string{"upstream_rq_503"},
			InclusionRegexps: []string{`cluster\.outbound\|80\|.*\.upstream_cx_active`},
		}
	},
	"runtime": func(p *Params) {
		p.Runtime = map[string]any{
			"re2.max_program_size.error_level": 1000, "upstream.use_http2": true, "tracing.random_sampling": "50",
		}
	},
	"memory limit": func(p *Params) { p.MemoryLimit = 1 << 30 },
	"outlier log":  func(p *Params) { p.OutlierLogPath = "/dev/stdout" },
	"prometheus":   func(p *Params) { p.PrometheusPort, p.AdminPort = 15090, 15000 },
	"readiness":    func(p *Params) { p.ReadinessPort, p.StatusPort = 15021, 15020 },
	"both listeners on IPv6": func(p *Params) {
		p.Node.IP = "2001:db8::2"
		p.ReadinessPort, p.StatusPort, p.PrometheusPort, p.AdminPort = 15021, 15020, 15090, 15000
	},
}

func TestRender(t *testing.T) {
	for name, option := range options {
		t.Run(name, func(t *testing.T) {
			p := sidecar()
			option(&p)
			rendersGolden(t, p)
		})
	}
}

// registries are the shapes of a node.
var registries = map[string]node.ID{
	"Kubernetes": {IP: "10.1.2.3", Name: "reviews-v1.default", Domain: "default.svc.cluster.local"},
	"Consul":     {IP: "10.1.2.3", Name: "10.1.2.3.service.consul", Domain: "service.consul"},
	"Other":      {IP: "10.1.2.3", Name: "10.1.2.3"},
}

// TestRenderRoles renders each role with each registry, authentication and variant, and the memory limit in which
// roles differ.
func TestRenderRoles(t *testing.T) {
	for _, role := range []node.Role{node.Sidecar, node.Ingress, node.Router} {
		for registry, id := range registries {
			for _, authentication := range []*TLS{nil, mutualTLS()} {
				variants := []Variant{Delta}
				if registry == "Kubernetes" {
					variants = []Variant{SotW, Delta}
				}
				for _, variant := range variants {
					name := fmt.Sprintf("%s %s %s", role, registry, variant)
					if authentication != nil {
						name += " mutual TLS"
					}
					t.Run(name, func(t *testing.T) {
						p := sidecar()
						p.Node, p.Node.Role, p.MemoryLimit = id, role, 1<<30
						p.Discovery.Variant, p.Discovery.TLS = variant, authentication
						if authentication != nil {
							p.SecretsSocket = secretsSocket
						}
						rendersGolden(t, p)
					})
				}
			}
		}
	}
}

func rendersGolden(t *testing.T, p Params) {
	t.Helper()
	got, err := Render(p)
	if err != nil {
		t.Fatal(err)
	}
	golden.JSON(t, got)
}

func TestRenderRefuses(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Params)
		want   string // parts of the error, a line each
	}{
		{"malformed node", func(p *Params) { p.Node.IP = "localhost" }, `node: ip "localhost"`},
		{"no discovery", func(p *Params) { p.Discovery = Discovery{} }, "discovery: has no host\nconnect timeout 0s"},
		{"no port", func(p *Params) { p.Discovery.Port = 65536 }, "discovery: port 65536: want 1 to 65535"},
		{"unknown variant", func(p *Params) { p.Discovery.Variant = "rest" }, `variant "rest": want sotw or delta`},
		{
			"TLS without names", func(p *Params) { p.Discovery.TLS = &TLS{Chain: "a", Key: "b", Roots: "c"} },
			"discovery: TLS: has no subject alternative name\nhas no socket of the secrets",
		},
		{
			"two tracers", func(p *Params) { p.Zipkin, p.OpenTelemetry = Address{"a", 1}, Address{"b", 2} },
			"spans go to Zipkin a:1 or to OpenTelemetry b:2: name one",
		},
		{"half an address", func(p *Params) { p.MetricsService.Port = 1 }, "metrics service: has no host"},
		{"statsd by name", func(p *Params) { p.Statsd = Address{"statsd", 1} }, "statsd statsd:1: want an IP address"},
		{
			"nowhere to lead to", func(p *Params) { p.PrometheusPort, p.ReadinessPort = 1, 2 },
			"agent's admin port\nagent's status port",
		},
		{
			"one port twice", func(p *Params) { p.AdminPort, p.StatusPort = 15000, 15000 },
			"status port 15000: is the admin port already",
		},
		{"no port of ours", func(p *Params) { p.AdminPort = 70000 }, "admin port 70000: want 1 to 65535"},
		{"no UTF-8", func(p *Params) { p.Cluster = "a\xff" }, `"a\xff": want UTF-8`},
		{"nor in metadata", func(p *Params) { p.Metadata.Extra = map[string]any{"k\xff": 1} }, "want UTF-8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := sidecar()
			test.change(&p)
			_, err := Render(p)
			for want := range strings.SplitSeq(test.want, "\n") {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Render: got error %v, want one with %q", err, want)
				}
			}
		})
	}
}

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]Address{
		"pilot:15010": {"pilot", 15010}, "10.0.0.1:1": {"10.0.0.1", 1}, "[::1]:65535": {"::1", 65535},
	} {
		if got, err := ParseAddress(text); err != nil || got != want || got.String() != text {
			t.Errorf("ParseAddress(%q): got %+v, %v; want %+v, and the same text again", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "pilot", ":1", "pilot:", "pilot:0", "pilot:65536", "pilot:x", "::1:15010", "[::1:15010", "::1]:15010",
		"pilot:1:2",
	} {
		if got, err := ParseAddress(text); err == nil || !strings.Contains(err.Error(), "want host:port") {
			t.Errorf("ParseAddress(%q): got %+v, %v; want an error", text, got, err)
		}
	}
}

func TestParseLocality(t *testing.T) {
	for text, want := range map[string]Locality{
		"": {}, "r": {Region: "r"}, "r/z": {"r", "z", ""}, "r/z/s": {"r", "z", "s"}, "r/z/s/t": {"r", "z", "s/t"},
	} {
		if got := ParseLocality(text); got != want {
			t.Errorf("ParseLocality(%q): got %+v, want %+v", text, got, want)
		}
	}
}

func TestRenderTemplateRefuses(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"broken template", "{\n{{if}}", "parse bootstrap template: template: bootstrap:2: missing value"},
		{"unknown key", "{\n\n\"a\": {{.Clutser}}}", "bootstrap:3:7"},
		{"unknown part", `{"a": {{template "nodes" .}}}`, `template "nodes" not defined`},
		{"quotes around a value", "{\n  \"a\": \"{{.Cluster}}\"\n}", `line 2: "a": ""reviews"": invalid character 'r'`},
		{"a comma too many", `{"a": 1,}`, `want a JSON object: line 1: {"a": 1,}: invalid character '}'`},
		{"no object", `[{{.Cluster}}]`, "want a JSON object"},
		{"nothing", "", "want a JSON object"},
		{"null", "null", "want a JSON object: is null"},
		{"YAML", "node:\n  id: a\n", "want a JSON object"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := RenderTemplate(test.text, sidecar())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %s, %v; want an error with %q", got, err, test.want)
			}
		})
	}
}

func documentation(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/bootstrap.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A start without further settings does not wait until the optional parts are parsed.
func TestNoOptionalPartIsNeeded(t *testing.T) {
	p := sidecar()
	p.SecretsSocket = secretsSocket
	for name, text := range map[string]string{"sidecar": templates.Sidecar, "gateway": templates.Gateway} {
		if _, err := executeWith(templates.Parts, text, p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDocumentedKeys holds that the documentation names every key and every part, and none that is not there.
func TestDocumentedKeys(t *testing.T) {
	text := documentation(t)
	for _, key := range keys(reflect.TypeFor[Params](), "") {
		if !strings.Contains(text, "`"+key+"`") {
			t.Errorf("docs/bootstrap.md does not name %s", key)
		}
	}
	defined := map[string]bool{}
	for _, match := range regexp.MustCompile(`{{define "(.*)"`).FindAllStringSubmatch(templates.Parts+templates.Optional, -1) {
		defined[match[1]] = true
	}
	_, parts, _ := strings.Cut(text, "\nParts, ")
	parts, _, _ = strings.Cut(parts, "\n\n")
	named := regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(parts, -1)
	if len(named) < 5 {
		t.Fatalf("found no parts in %q", parts)
	}
	for _, match := range named {
		if !defined[match[1]] {
			t.Errorf("docs/bootstrap.md names a part %s, and there is none", match[1])
		}
	}
	p := sidecar()
	p.Discovery.TLS, p.SecretsSocket = mutualTLS(), secretsSocket
	for _, key := range regexp.MustCompile("(?m)`(\\.[A-Z][A-Za-z.]+)`").FindAllStringSubmatch(text, -1) {
		_, err := RenderTemplate(`{"a": {{`+key[1]+`}}}`, p)
		below := strings.Contains(text, "with `"+key[1]+"`") || strings.Contains(text, ", `"+key[1]+"`") // of a list's items
		if err != nil && !below {
			t.Errorf("docs/bootstrap.md names %s: %v", key[1], err)
		}
	}
}

// keys lists what a template can say of a type, fields and methods, down to the messages that are ours.
func keys(of reflect.Type, at string) (out []string) {
	for i := range of.NumField() {
		field := of.Field(i)
		kind := field.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		switch {
		case field.Anonymous:
			out = append(out, at+".Host", at+".Port", at+".IsIP")
		case at == "" && field.Name == "Node": // of another package, and not all of it is of use
			out = append(out, ".Node.String", ".Node.Role", ".Node.IP", ".Node.Name", ".Node.Domain")
		case at == "" && field.Name == "Metadata":
			out = append(out, ".Metadata.Map")
		case kind.Kind() == reflect.Struct && kind != reflect.TypeFor[Address]():
			out = append(out, keys(kind, at+"."+field.Name)...)
		default:
			out = append(out, at+"."+field.Name)
		}
	}
	for i := range of.NumMethod() {
		if name := of.Method(i).Name; name != "Validate" && at != ".Discovery" {
			out = append(out, at+"."+name)
		}
	}
	return out
}

// TestDocumentedTemplate renders the documentation's template, merges its override, and asks Envoy.
func TestDocumentedTemplate(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```(?:json)?\n(.*?)```").FindAllStringSubmatch(documentation(t), -1)
	if len(blocks) != 2 {
		t.Fatalf("docs/bootstrap.md has %d blocks, want a template and an override", len(blocks))
	}
	p := sidecar()
	p.Zipkin = Address{"zipkin", 9411}
	rendered, err := RenderTemplate(blocks[0][1], p)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := Merge(rendered, []byte(blocks[1][1]))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lab.Warnings(merged); err != nil {
		t.Error(err)
	}
	for _, want := range []string{`"name": "reviews-cache"`, `"name": "envoy.bootstrap.internal_listener"`, `"connect_timeout": "1s"`} {
		if !strings.Contains(string(merged), want) {
			t.Errorf("no %s in %s", want, merged)
		}
	}
}

// A template has the value of every method of the parameters that takes nothing and returns one value.
func TestTemplatesHaveTheMethodsOfParameters(t *testing.T) {
	var look func(value reflect.Value, seen map[reflect.Type]bool)
	look = func(value reflect.Value, seen map[reflect.Type]bool) {
		of := value.Type()
		if seen[of] || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
			return
		}
		seen[of] = true
		for i := range of.NumMethod() {
			method := of.Method(i)
			if method.Type.NumIn() != 1 || method.Type.NumOut() != 1 || method.Name == "Validate" || of.PkgPath() == "time" && method.Name != "String" {
				continue
			}
			if _, found := computed(value.Interface(), method.Name); !found {
				t.Errorf("a template does not have %s of %s", method.Name, of)
			}
		}
		if of.Kind() == reflect.Struct {
			for i := range of.NumField() {
				if of.Field(i).IsExported() {
					look(value.Field(i), seen)
				}
			}
		}
	}
	look(reflect.ValueOf(Params{Discovery: Discovery{TLS: &TLS{}}}), map[reflect.Type]bool{})
}
