package main

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pilotlight/pilotlight/agent/cgroup"
	"github.com/pilotlight/pilotlight/node"
)

// TestEverySettingHasAnEffect gives each setting a value of its own, and finds it where it must arrive. What arrives
// nowhere but in a running process is tested there: the row names the file, which must speak of the flag.
func TestEverySettingHasAnEffect(t *testing.T) {
	rows := map[string]struct {
		given string
		in    func(t *testing.T, s *settings) string
		want  string // is there, and is not without the setting
		also  string // or: the file that tests it
	}{
		"serviceregistry":  {given: "Consul", in: rendered, want: ".service.consul~service.consul"},
		"ip":               {given: "10.9.9.9", in: rendered, want: "sidecar~10.9.9.9~"},
		"id":               {given: "me-1", in: rendered, want: "~me-1~"},
		"domain":           {given: "my.domain", in: rendered, want: "~my.domain"},
		"trust-domain":     {given: "my.trust", in: renderedTLS, want: "spiffe://my.trust/ns/"},
		"serviceCluster":   {given: "reviews", in: rendered, want: `"cluster": "reviews"`},
		"availabilityZone": {given: "r/z/s", in: rendered, want: `"sub_zone": "s"`},
		"labelsFile":       {given: "/labels", in: rendered, want: `"app": "of-the-file"`},
		"annotationsFile":  {given: "/annotations", in: rendered, want: `"note": "of-the-file"`},

		"configPath":        {also: "testdata/refused.txt"},
		"binaryPath":        {also: "testdata/refused.txt"},
		"customConfigFile":  {also: "../../e2e/standalone_test.go"},
		"templateFile":      {also: "testdata/bootstrap.txt"},
		"bootstrapOverride": {also: "testdata/bootstrap.txt"},

		"discoveryAddress":       {given: "pilot.x:1234", in: rendered, want: `"port_value": 1234`},
		"xdsVariant":             {given: "sotw", in: rendered, want: `"api_type": "GRPC",`},
		"connectTimeout":         {given: "7s", in: rendered, want: `"connect_timeout": "7s"`},
		"controlPlaneAuthPolicy": {given: "MUTUAL_TLS", in: rendered, want: "sds-certificate.json"},
		"pilotIdentity":          {given: "spiffe://x/y", in: renderedTLS, want: "spiffe://x/y"},
		"certDir":                {given: "/my/certs", in: certificateFiles, want: "/my/certs/key.pem"},
		"ingressCertDir":         {given: "/my/ingress", in: certificateFiles, want: "/my/ingress/tls.key"},
		"certRotation":           {also: "../../e2e/rotation_test.go"},

		"drainDuration":               {given: "11s", in: options, want: "DrainTime:11s"},
		"parentShutdownDuration":      {given: "77s", in: options, want: "ParentShutdown:1m17s"},
		"terminationDrainDuration":    {given: "8s", in: supervision, want: "TerminationDrain:8s"},
		"exitOnZeroActiveConnections": {given: "false", in: supervision, want: "WaitOut:true"},
		"handover":                    {given: "side-by-side", in: supervision, want: "Handover:side-by-side"},
		"handoverTimeout":             {given: "9s", in: supervision, want: "HandoverTimeout:9s"},
		"restartBudget":               {given: "3", in: supervision, want: "RestartBudget:3"},
		"restartBackOff":              {given: "5ms", in: supervision, want: "BackOffBase:5ms"},

		"concurrency":            {given: "5", in: options, want: "Concurrency:5"},
		"memoryLimit":            {given: "300Mi", in: rendered, want: "envoy.overload_actions."},
		"proxyLogLevel":          {given: "trace", in: options, want: "LogLevel:trace"},
		"proxyComponentLogLevel": {given: "upstream:debug", in: options, want: "ComponentLogLevel:upstream:debug"},
		"outlierLogPath":         {given: "/var/log/outliers", in: rendered, want: `"event_log_path": "/var/log/outliers"`},
		"runtimeValues":          {given: "a.b=7", in: rendered, want: `"a.b": 7`},
		"envoyArguments":         {given: "--cpuset-threads --x", in: options, want: "Extra:[--cpuset-threads --x]"},

		"statusPort":             {also: "../../e2e/standalone_test.go"},
		"proxyAdminPort":         {also: "../../e2e/lab/sidecar.go"},
		"envoyPrometheusPort":    {given: "15090", in: rendered, want: `"port_value": 15090`},
		"envoyStatusPort":        {given: "15021", in: rendered, want: `"port_value": 15021`},
		"zipkinAddress":          {given: "zipkin:9411", in: rendered, want: `"name": "zipkin"`},
		"openTelemetryAddress":   {given: "otel:4317", in: rendered, want: `"name": "opentelemetry"`},
		"statsdUdpAddress":       {given: "10.0.0.3:9125", in: rendered, want: `"port_value": 9125`},
		"envoyMetricsService":    {given: "metrics:1", in: rendered, want: `"address": "metrics"`},
		"envoyAccessLogService":  {given: "als:1", in: rendered, want: `"address": "als"`},
		"statsInclusionPrefixes": {given: "my.prefix", in: rendered, want: `"prefix": "my.prefix"`},
		"statsInclusionSuffixes": {given: "my_suffix", in: rendered, want: `"suffix": "my_suffix"`},
		"statsInclusionRegexps":  {given: "my.*regexp", in: rendered, want: `"regex": "my.*regexp"`},
		"logLevel":               {also: "testdata/settings.txt"},
		"logFormat":              {also: "testdata/settings.txt"},
	}
	for _, name := range (&settings{}).table().Names() {
		row, listed := rows[name]
		if !listed {
			t.Errorf("--%s is tested nowhere", name)
			continue
		}
		delete(rows, name)
		t.Run(name, func(t *testing.T) {
			if row.also != "" {
				text, err := os.ReadFile(row.also)
				if err != nil || !strings.Contains(string(text), "--"+name) {
					t.Errorf("%s does not speak of --%s: %v", row.also, name, err)
				}
				return
			}
			if before := row.in(t, resolved(t, nil)); strings.Contains(before, row.want) {
				t.Errorf("%s is there without the setting:\n%s", row.want, before)
			}
			if after := row.in(t, resolved(t, nil, "--"+name, row.given)); !strings.Contains(after, row.want) {
				t.Errorf("want %s in\n%s", row.want, after)
			}
		})
	}
	for name := range rows {
		t.Errorf("--%s is no setting", name)
	}
}

// rendered is the bootstrap that a pod's sidecar gets.
func rendered(t *testing.T, s *settings) string {
	t.Helper()
	root := fstest.MapFS{
		"labels":      {Data: []byte(`app="of-the-file"`)},
		"annotations": {Data: []byte(`note="of-the-file"`)},
	}
	env := environment{"POD_NAME": "p", "POD_NAMESPACE": "n"}
	params, err := s.params(node.Sidecar, env, []netip.Addr{netip.MustParseAddr("10.0.0.1")}, root)
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := s.bootstrapText(params)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func renderedTLS(t *testing.T, s *settings) string {
	s.controlPlaneAuthPolicy = authMutualTLS
	return rendered(t, s)
}

func options(_ *testing.T, s *settings) string     { return fmt.Sprintf("%+v", s.options()) }
func supervision(_ *testing.T, s *settings) string { return fmt.Sprintf("%+v", s.supervision()) }

func certificateFiles(_ *testing.T, s *settings) string {
	var paths []string
	for _, set := range s.certificates(node.Ingress) {
		paths = append(paths, set.Paths()...)
	}
	return fmt.Sprint(paths)
}

// What nobody said comes from the control group.
func TestLimit(t *testing.T) {
	s := resolved(t, nil)
	s.limit(cgroup.Limits{CPUs: 2.5, Memory: 1000 << 20}, 8)
	if s.concurrency != 2 || s.memoryLimit != 900<<20 {
		t.Errorf("got %d workers, %d bytes; want 2 and nine tenths of the limit", s.concurrency, s.memoryLimit)
	}
	s = resolved(t, nil, "--concurrency", "7", "--memoryLimit", "1Gi")
	s.limit(cgroup.Limits{CPUs: 2.5, Memory: 512 << 20}, 8)
	if s.concurrency != 7 || s.memoryLimit != 1<<30 {
		t.Errorf("got %d workers, %d bytes; want what was given", s.concurrency, s.memoryLimit)
	}
}

func TestServiceName(t *testing.T) {
	for _, test := range []struct{ given, want string }{
		{"", "service.name=shop%20a"},
		{"OTEL_RESOURCE_ATTRIBUTES=zone=b", "zone=b,service.name=shop%20a"},
		{"OTEL_RESOURCE_ATTRIBUTES=service.name=mine", "service.name=mine"},
	} {
		got := parseEnvironment(withServiceName([]string{"A=b", test.given}, "shop a"))
		if got["OTEL_RESOURCE_ATTRIBUTES"] != test.want || got["A"] != "b" {
			t.Errorf("%q: got %q, want %q", test.given, got["OTEL_RESOURCE_ATTRIBUTES"], test.want)
		}
	}
}
