package ads

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// envoyLab is a real Envoy with a bootstrap of the test's own, between them and discovery a relay that counts and cuts.
type envoyLab struct {
	lab.Mesh
	delta   bool
	relay   *relay
	baseID  int
	backend map[string]string // host:port of each, by the name it answers
	proxy   string            // host:port of Envoy's outbound HTTP

	serverDir string // of discovery's certificates, "" for plaintext
	socket    string // Envoy's transport socket to discovery, as a field of JSON; "" for plaintext
	resolver  string // Envoy's DNS resolver, as a field of JSON; "" for the system's
}

const echoHost = "echo.default.svc.cluster.local"

// overADS runs a test with both variants, and a discovery with these flags.
func overADS(t *testing.T, test func(l *envoyLab), flags ...string) {
	for _, variant := range variants {
		t.Run(variant, func(t *testing.T) { test(newEnvoyLab(t, variant, flags...)) })
	}
}

// variants of ADS.
var variants = []string{"sotw", "delta"}

// newEnvoyLab starts a discovery with these flags for Envoys of a variant.
func newEnvoyLab(t *testing.T, variant string, flags ...string) *envoyLab {
	t.Helper()
	dir := t.TempDir()
	l := &envoyLab{delta: variant == "delta", backend: map[string]string{}, baseID: lab.BaseID()}
	t.Cleanup(func() { _ = os.Remove(fmt.Sprintf("/dev/shm/envoy_shared_memory_%d0", l.baseID)) }) // Envoy leaves it
	l.Mesh = lab.Mesh{Lab: lab.New(dir), T: t, Addresses: lab.Addresses(), Config: filepath.Join(dir, "config")}
	l.Check(os.MkdirAll(l.Config, 0o755))
	for _, name := range []string{"one", "two"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }))
		t.Cleanup(server.Close)
		l.backend[name] = server.Listener.Addr().String()
	}
	l.serve("one")
	var err error
	l.Discovery, err = l.Lab.Discovery(l.Config, append(flags, "--shutdownDuration", "2s")...)
	l.Check(err)
	t.Cleanup(func() { l.Discovery.Stop(lab.StopLimit) })
	l.relay, err = newRelay(l.Discovery.GRPC)
	l.Check(err)
	t.Cleanup(l.relay.Close)
	port, err := lab.FreePort()
	l.Check(err)
	l.proxy = fmt.Sprintf("127.0.0.1:%d", port)
	return l
}

// serve makes the mesh's service lead to a backend, among fifty others that nobody calls.
func (l *envoyLab) serve(backend string) {
	l.T.Helper()
	host, port, _ := strings.Cut(l.backend[backend], ":")
	var text strings.Builder
	for i := range 50 {
		fmt.Fprintf(&text, entry, fmt.Sprintf("other%d", i), fmt.Sprintf("other%d.default.svc.cluster.local", i), "127.0.0.1", "9")
	}
	fmt.Fprintf(&text, entry, "echo", echoHost, host, port)
	l.Write("mesh.yaml", text.String())
}

const entry = `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %s, namespace: default}
spec:
  hosts: [%s]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: %s, ports: {http: %s}}]
`

// start starts an Envoy of the one node, as an epoch of a hot restart, and waits until it has everything.
func (l *envoyLab) start(epoch int) *envoyProcess {
	l.T.Helper()
	e := l.launch(epoch)
	l.Check(e.AwaitHTTP(30*time.Second, "http://"+e.admin+"/ready"))
	return e
}

// launch is start without the wait.
func (l *envoyLab) launch(epoch int) *envoyProcess {
	l.T.Helper()
	admin, err := lab.FreePort()
	l.Check(err)
	api := "GRPC"
	if l.delta {
		api = "DELTA_GRPC"
	}
	_, outbound, _ := strings.Cut(l.proxy, ":")
	host, port, _ := strings.Cut(l.relay.Address(), ":")
	bootstrap := filepath.Join(l.Dir, fmt.Sprintf("bootstrap-%d.json", epoch))
	l.Check(os.WriteFile(bootstrap, []byte(fmt.Sprintf(echoBootstrap, l.Address(9), outbound, admin, l.resolver, api, host, port, l.socket)), 0o600))
	e := &envoyProcess{admin: fmt.Sprintf("127.0.0.1:%d", admin)}
	e.Process, err = lab.Start(lab.Spec{Name: fmt.Sprintf("envoy-%d", epoch), Dir: l.Dir, Argv: []string{
		l.Envoy, "--config-path", bootstrap, "--concurrency", "1", "--base-id", fmt.Sprint(l.baseID), "--restart-epoch", fmt.Sprint(epoch),
		"--drain-time-s", "1", "--parent-shutdown-time-s", "15", "--drain-strategy", "immediate", "--log-level", "info",
	}})
	l.Check(err)
	l.T.Cleanup(func() { e.Stop(lab.StopLimit) })
	return e
}

// envoyProcess is one epoch.
type envoyProcess struct {
	*lab.Process
	admin string
}

// stat returns a counter or gauge of an Envoy.
func (l *envoyLab) stat(e *envoyProcess, name string) int64 {
	l.T.Helper()
	stats, err := lab.Stats(e.admin, "^"+strings.ReplaceAll(name, ".", `\.`)+"$")
	l.Check(err)
	return stats[name]
}

// answers waits until a request through Envoy is answered by a backend.
func (l *envoyLab) answers(backend string) {
	l.T.Helper()
	l.Check(lab.Eventually(lab.StopLimit, func() error {
		got, err := lab.GetThrough(l.proxy, "http://"+echoHost+"/")
		if err == nil && got != backend {
			err = fmt.Errorf("answered by %q, want %q", got, backend)
		}
		return err
	}))
}

// clients waits until so many streams have everything, and returns them.
func (l *envoyLab) clients(want int) []ads.Client {
	l.T.Helper()
	var clients []ads.Client
	l.Check(lab.Eventually(30*time.Second, func() error {
		clients = nil
		if err := l.debug("adsz", &clients); err != nil {
			return err
		}
		if len(clients) != want {
			return fmt.Errorf("%d streams, want %d", len(clients), want)
		}
		for _, c := range clients {
			if len(c.Types) == 0 {
				return fmt.Errorf("stream of %s: nothing asked yet", c.Peer)
			}
			for _, k := range c.Types {
				if k.State != protocol.StateSynced {
					return fmt.Errorf("stream of %s: %s is %s", c.Peer, k.Name, k.State)
				}
			}
		}
		return nil
	}))
	return clients
}

func (l *envoyLab) debug(page string, into any) error {
	body, err := lab.Get("http://" + l.Discovery.HTTP + "/debug/" + page)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(body), into)
}

const echoBootstrap = `{
  "node": {"id": "sidecar~%s~ads.default~default.svc.cluster.local", "cluster": "ads",
    "metadata": {"INTERCEPTION_MODE": "NONE", "HTTP_PROXY_PORT": "%s"}},
  "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": %d}}},%s
  "dynamic_resources": {
    "ads_config": {"api_type": %q, "transport_api_version": "V3", "set_node_on_first_message_only": true,
      "grpc_services": [{"envoy_grpc": {"cluster_name": "xds-grpc"}}]},
    "cds_config": {"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"},
    "lds_config": {"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"}
  },
  "static_resources": {"clusters": [{
    "name": "xds-grpc", "type": "STATIC", "connect_timeout": "1s",
    "load_assignment": {"cluster_name": "xds-grpc", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {
      "socket_address": {"address": %q, "port_value": %s}}}}]}]},
    "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
      "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
      "explicit_http_config": {"http2_protocol_options": {}}}}%s
  }]}
}`
