package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/proxy"
	"github.com/pilotlight/pilotlight/agent/status"
	"github.com/pilotlight/pilotlight/node"
)

// TestEverySettingHasAnEffect sets each setting to a unique value, and checks that the value arrives at its
// destination.
func TestEverySettingHasAnEffect(t *testing.T) {
	ports := []string{freePort(t), freePort(t)}
	direct := []string{"--lastGood", "off"} // Envoy connects to discovery itself, so that its bootstrap shows how
	rows := map[string]struct {
		given     string
		in        func(t *testing.T, s *settings) string
		want      string   // is there, and is not without the setting
		file      bool     // given is the content of a file, whose path is given
		otherwise string   // what is given to compare with; "" for nothing
		beside    []string // flags that are given in both cases
	}{
		"serviceregistry":  {given: "Consul", in: rendered, want: ".service.consul~service.consul"},
		"ip":               {given: "10.9.9.9", in: rendered, want: "sidecar~10.9.9.9~"},
		"id":               {given: "me-1", in: rendered, want: "~me-1~"},
		"domain":           {given: "my.domain", in: rendered, want: "~my.domain"},
		"trust-domain":     {given: "my.trust", in: renderedTLS, want: "spiffe://my.trust/ns/", beside: direct},
		"serviceCluster":   {given: "reviews", in: rendered, want: `"cluster": "reviews"`},
		"availabilityZone": {given: "r/z/s", in: rendered, want: `"sub_zone": "s"`},
		"labelsFile":       {given: "/labels", in: rendered, want: `"app": "of-the-file"`},
		"annotationsFile":  {given: "/annotations", in: rendered, want: `"note": "of-the-file"`},

		"configPath":        {given: "/dev/null/mine", in: refused, want: "/dev/null/mine", otherwise: "/dev/null/other"},
		"binaryPath":        {given: "/dev/null/envoy", in: refused, want: "--binaryPath /dev/null/envoy", otherwise: "/dev/null/other"},
		"customConfigFile":  {given: `{"mine": 1}`, file: true, in: rendered, want: `{"mine": 1}`},
		"templateFile":      {given: `{"cluster": {{json .Discovery.Host}}, "mine": 1}`, file: true, in: rendered, want: `"mine": 1`},
		"bootstrapOverride": {given: `{"stats_flush_interval": "7s"}`, file: true, in: rendered, want: `"stats_flush_interval": "7s"`},

		"discoveryAddress":       {given: "pilot.x:1234", in: rendered, want: `"port_value": 1234`, beside: direct},
		"xdsVariant":             {given: "sotw", in: rendered, want: `"api_type": "GRPC",`},
		"lastGood":               {given: "off", in: rendered, want: `"port_value": 15010`},
		"connectTimeout":         {given: "7s", in: rendered, want: `"connect_timeout": "7s"`},
		"controlPlaneAuthPolicy": {given: "MUTUAL_TLS", in: rendered, want: `"name": "ROOTCA"`, beside: direct},
		"pilotIdentity":          {given: "spiffe://x/y", in: renderedTLS, want: "spiffe://x/y", beside: direct},
		"certDir":                {given: "/my/certs", in: certificateFiles, want: "/my/certs/key.pem"},
		"ingressCertDir":         {given: "/my/ingress", in: certificateFiles, want: "/my/ingress/tls.key"},
		"caAddress":              {given: "other.test:1", in: enrolled, want: "other.test:1", otherwise: "ca.test:7", beside: []string{"--caRoots", "/r"}},
		"caRoots":                {given: "/my/roots.pem", in: enrolled, want: "/my/roots.pem", otherwise: "/r", beside: []string{"--caAddress", "ca.test:7"}},
		"caToken":                {given: "/my/token", in: enrolled, want: "/my/token", beside: []string{"--caAddress", "ca.test:7", "--caRoots", "/r"}},
		"certRotation":           {given: "restart", in: rotation, want: "a handover after 0s"},

		"drainDuration":               {given: "11s", in: options, want: "DrainTime:11s"},
		"parentShutdownDuration":      {given: "77s", in: options, want: "ParentShutdown:1m17s"},
		"terminationDrainDuration":    {given: "8s", in: supervision, want: "TerminationDrain:8s"},
		"exitOnZeroActiveConnections": {given: "false", in: supervision, want: "WaitOut:true"},
		"minimumDrainDuration":        {given: "3s", in: options, want: "MinimumDrain:3s"},
		"handover":                    {given: "side-by-side", in: supervision, want: "HandoverWay:side-by-side"},
		"handoverTimeout":             {given: "9s", in: supervision, want: "HandoverTimeout:9s"},
		"restartBudget":               {given: "3", in: supervision, want: "RestartBudget:3"},
		"restartBackOff":              {given: "5ms", in: supervision, want: "BackOffBase:5ms"},
		"upgradeOnChange":             {given: "true", in: replaced, want: "true"},

		"concurrency":            {given: "5", in: options, want: "Concurrency:5"},
		"memoryLimit":            {given: "300Mi", in: rendered, want: "envoy.overload_actions."},
		"proxyLogLevel":          {given: "trace", in: options, want: "LogLevel:trace"},
		"proxyComponentLogLevel": {given: "upstream:debug", in: options, want: "ComponentLogLevel:upstream:debug"},
		"outlierLogPath":         {given: "/var/log/outliers", in: rendered, want: `"event_log_path": "/var/log/outliers"`},
		"runtimeValues":          {given: "a.b=7", in: rendered, want: `"a.b": 7`},
		"envoyArguments":         {given: "--cpuset-threads --x", in: options, want: "Extra:[--cpuset-threads --x]"},

		"statusPort":             {given: ports[0], in: served, want: "listens on " + ports[0], otherwise: "0"},
		"proxyAdminPort":         {given: ports[1], in: served, want: "listens on " + ports[1], otherwise: "0"},
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
		"logLevel":               {given: "debug", in: logged, want: "level=DEBUG msg=told"},
		"logFormat":              {given: "json", in: logged, want: `"level":"INFO","msg":"told"`},
	}
	for _, name := range (&settings{}).table().Names() {
		row, listed := rows[name]
		if !listed {
			t.Errorf("--%s is tested nowhere", name)
			continue
		}
		delete(rows, name)
		t.Run(name, func(t *testing.T) {
			given := row.given
			if row.file {
				given = filepath.Join(t.TempDir(), "given.json")
				if err := os.WriteFile(given, []byte(row.given), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			without := row.beside
			if row.otherwise != "" {
				without = append([]string{"--" + name, row.otherwise}, row.beside...)
			}
			if before := row.in(t, resolved(t, nil, without...)); strings.Contains(before, row.want) {
				t.Errorf("%s is there without the setting:\n%s", row.want, before)
			}
			if after := row.in(t, resolved(t, nil, append([]string{"--" + name, given}, row.beside...)...)); !strings.Contains(after, row.want) {
				t.Errorf("want %s in\n%s", row.want, after)
			}
		})
	}
	for name := range rows {
		t.Errorf("--%s is no setting", name)
	}
}

// resolvedProxy returns the proxy of a pod's sidecar with these settings.
func resolvedProxy(t *testing.T, s *settings) *proxy.Proxy {
	t.Helper()
	config := s.config(node.Sidecar, []string{"POD_NAME=p", "POD_NAMESPACE=n"}, slog.New(slog.DiscardHandler))
	p, err := proxy.Resolve(config, proxy.Host{
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
		Files: fstest.MapFS{
			"labels":      {Data: []byte(`app="of-the-file"`)},
			"annotations": {Data: []byte(`note="of-the-file"`)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rendered returns its bootstrap.
func rendered(t *testing.T, s *settings) string {
	t.Helper()
	text, _, err := resolvedProxy(t, s).Bootstrap()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func renderedTLS(t *testing.T, s *settings) string {
	s.controlPlaneAuthPolicy = authMutualTLS
	return rendered(t, s)
}

// refused returns why the proxy does not start.
func refused(t *testing.T, s *settings) string {
	if s.origins["configPath"].Set() {
		s.binaryPath = "/bin/sh" // it exists
	}
	err := resolvedProxy(t, s).Run(t.Context(), proxy.Process{})
	if err == nil {
		t.Fatal("it starts")
	}
	return err.Error()
}

// rotation returns the reaction to a new certificate while Envoy does not answer which certificate it presents.
func rotation(t *testing.T, s *settings) (text string) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		silent := func(context.Context) ([]string, bool) { return nil, false }
		proof := cert.Proof{Never: s.config(node.Sidecar, nil, log).NewEpochs, Presented: silent, Log: log}
		began := time.Now()
		next := cert.Observation{Infos: []cert.Info{{Serial: "03e9"}}}
		if !proof.Taken(t.Context(), next, next) {
			text = fmt.Sprintf("a handover after %s", time.Since(began))
		}
	})
	return text
}

// noEnvoys is a host without an Envoy.
type noEnvoys struct{}

func (noEnvoys) Sends(_, _ netip.AddrPort) (bool, error) { return false, nil }

func (noEnvoys) RefuseOwn(int) error { return nil }

// served returns the ports on which the agent listens.
func served(t *testing.T, s *settings) string {
	for name, port := range map[string]*int{"statusPort": &s.statusPort, "proxyAdminPort": &s.proxyAdminPort} {
		if !s.origins[name].Set() {
			*port = 0 // another program may use the default port
		}
	}
	config := status.Config{Envoys: noEnvoys{}, Envoy: func() http.RoundTripper { return nil }, Log: slog.New(slog.DiscardHandler)}
	stop, err := status.Serve(config, s.config(node.Sidecar, nil, config.Log).Ports, filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	text := ""
	for _, port := range []int{s.statusPort, s.proxyAdminPort} {
		if conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			text += fmt.Sprintf("listens on %d\n", port)
			conn.Close()
		}
	}
	return text
}

// logged returns lines of the agent's own log.
func logged(_ *testing.T, s *settings) string {
	var out bytes.Buffer
	log := newLogger(&out, s.logLevel, s.logFormat)
	log.Debug("told")
	log.Info("told")
	return out.String()
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func options(_ *testing.T, s *settings) string {
	return fmt.Sprintf("%+v", s.config(node.Sidecar, nil, nil).Envoy)
}

func supervision(_ *testing.T, s *settings) string {
	return fmt.Sprintf("%+v", s.config(node.Sidecar, nil, nil).Supervision)
}

// replaced returns whether a changed binary replaces the agent: e2e shows that it does.
func replaced(_ *testing.T, s *settings) string {
	return fmt.Sprint(s.config(node.Sidecar, nil, nil).UpgradeOnChange)
}

func certificateFiles(_ *testing.T, s *settings) string {
	var paths []string
	for _, set := range s.config(node.Ingress, nil, nil).Certificates {
		paths = append(paths, set.Paths()...)
	}
	return fmt.Sprint(paths)
}

// enrolled shows what the agent gets its certificate from, and what follows from that for other settings.
func enrolled(_ *testing.T, s *settings) string {
	c := s.config(node.Sidecar, nil, nil)
	if c.Enrollment == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s:%s %+v %s", c.Enrollment.Host, c.Enrollment.Port, *c.Enrollment, certificateFiles(nil, s))
}
