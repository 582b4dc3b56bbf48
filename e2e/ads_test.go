package e2e

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
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// adsLab is a real Envoy with a bootstrap of the test's own, between them and discovery a relay that counts and cuts.
type adsLab struct {
	mesh
	delta   bool
	relay   *relay
	baseID  int
	backend map[string]string // host:port of each, by the name it answers
	proxy   string            // host:port of Envoy's outbound HTTP

	serverDir string // of discovery's certificates, "" for plaintext
	socket    string // Envoy's transport socket to discovery, as a field of JSON; "" for plaintext
	resolver  string // Envoy's DNS resolver, as a field of JSON; "" for the system's
}

const adsHost = "echo.default.svc.cluster.local"

// overADS runs a test with both variants, and a discovery with these flags.
func overADS(t *testing.T, test func(l *adsLab), flags ...string) {
	for _, variant := range []string{"sotw", "delta"} {
		t.Run(variant, func(t *testing.T) {
			dir := t.TempDir()
			l := &adsLab{delta: variant == "delta", backend: map[string]string{}, baseID: lab.BaseID()}
			t.Cleanup(func() { _ = os.Remove(fmt.Sprintf("/dev/shm/envoy_shared_memory_%d0", l.baseID)) }) // Envoy leaves it
			l.mesh = mesh{Lab: lab.Lab{Bin: bin, Envoy: envoy, Dir: dir}, t: t, addresses: lab.Addresses(), config: filepath.Join(dir, "config")}
			l.check(os.MkdirAll(l.config, 0o755))
			for _, name := range []string{"one", "two"} {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }))
				t.Cleanup(server.Close)
				l.backend[name] = server.Listener.Addr().String()
			}
			l.serve("one")
			var err error
			l.discovery, err = l.Discovery(l.config, append(flags, "--shutdownDuration", "2s")...)
			l.check(err)
			t.Cleanup(func() { l.discovery.Stop(stopLimit) })
			l.relay, err = newRelay(l.discovery.GRPC)
			l.check(err)
			t.Cleanup(l.relay.Close)
			port, err := lab.FreePort()
			l.check(err)
			l.proxy = fmt.Sprintf("127.0.0.1:%d", port)
			test(l)
		})
	}
}

// serve makes the mesh's service lead to a backend, among fifty others that nobody calls.
func (l *adsLab) serve(backend string) {
	l.t.Helper()
	host, port, _ := strings.Cut(l.backend[backend], ":")
	var text strings.Builder
	for i := range 50 {
		fmt.Fprintf(&text, entry, fmt.Sprintf("other%d", i), fmt.Sprintf("other%d.default.svc.cluster.local", i), "127.0.0.1", "9")
	}
	fmt.Fprintf(&text, entry, "echo", adsHost, host, port)
	l.write("mesh.yaml", text.String())
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
func (l *adsLab) start(epoch int) *envoyProcess {
	l.t.Helper()
	e := l.launch(epoch)
	l.check(e.AwaitHTTP(20*time.Second, "http://"+e.admin+"/ready"))
	return e
}

// launch is start without the wait.
func (l *adsLab) launch(epoch int) *envoyProcess {
	l.t.Helper()
	admin, err := lab.FreePort()
	l.check(err)
	api := "GRPC"
	if l.delta {
		api = "DELTA_GRPC"
	}
	_, outbound, _ := strings.Cut(l.proxy, ":")
	host, port, _ := strings.Cut(l.relay.Address(), ":")
	bootstrap := filepath.Join(l.Dir, fmt.Sprintf("bootstrap-%d.json", epoch))
	l.check(os.WriteFile(bootstrap, []byte(fmt.Sprintf(adsBootstrap, l.address(9), outbound, admin, l.resolver, api, host, port, l.socket)), 0o600))
	e := &envoyProcess{admin: fmt.Sprintf("127.0.0.1:%d", admin)}
	e.Process, err = lab.Start(lab.Spec{Name: fmt.Sprintf("envoy-%d", epoch), Dir: l.Dir, Argv: []string{
		l.Envoy, "--config-path", bootstrap, "--concurrency", "1", "--base-id", fmt.Sprint(l.baseID), "--restart-epoch", fmt.Sprint(epoch),
		"--drain-time-s", "1", "--parent-shutdown-time-s", "3", "--drain-strategy", "immediate", "--log-level", "info",
	}})
	l.check(err)
	l.t.Cleanup(func() { e.Stop(stopLimit) })
	return e
}

// envoyProcess is one epoch.
type envoyProcess struct {
	*lab.Process
	admin string
}

// stat returns a counter or gauge of an Envoy.
func (l *adsLab) stat(e *envoyProcess, name string) int64 {
	l.t.Helper()
	stats, err := lab.Stats(e.admin, "^"+strings.ReplaceAll(name, ".", `\.`)+"$")
	l.check(err)
	return stats[name]
}

// answers waits until a request through Envoy is answered by a backend.
func (l *adsLab) answers(backend string) {
	l.t.Helper()
	l.check(lab.Eventually(stopLimit, func() error {
		got, err := lab.GetThrough(l.proxy, "http://"+adsHost+"/")
		if err == nil && got != backend {
			err = fmt.Errorf("answered by %q, want %q", got, backend)
		}
		return err
	}))
}

// clients waits until so many streams have everything, and returns them.
func (l *adsLab) clients(want int) []ads.Client {
	l.t.Helper()
	var clients []ads.Client
	l.check(lab.Eventually(20*time.Second, func() error {
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
				if k.State != ads.StateSynced {
					return fmt.Errorf("stream of %s: %s is %s", c.Peer, k.Name, k.State)
				}
			}
		}
		return nil
	}))
	return clients
}

func (l *adsLab) debug(page string, into any) error {
	body, err := lab.Get("http://" + l.discovery.HTTP + "/debug/" + page)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(body), into)
}

// First connect, then a change of one endpoint: it is pushed alone, and can be followed to its ACK.
func TestADSConnectAndChange(t *testing.T) {
	t.Parallel()
	overADS(t, func(l *adsLab) {
		e := l.start(0)
		l.answers("one")
		if c := l.clients(1)[0]; !strings.Contains(c.Version, "1.40") || c.Variant != map[bool]string{false: "sotw", true: "delta"}[l.delta] {
			t.Errorf("connected: %+v", c)
		}
		load := lab.StartLoad(l.proxy, "http://"+adsHost+"/", 2, 1)
		l.serve("two")
		l.answers("two")
		unharmed(t, load)
		l.check(lab.Eventually(stopLimit, func() error {
			var pushes []ads.Push
			if err := l.debug("push_status", &pushes); err != nil {
				return err
			}
			last := pushes[len(pushes)-1]
			if last.Waiting != 0 || len(last.Cause) != 1 || last.Responses["eds"] != 1 || len(last.Responses) != 1 || last.Last.IsZero() {
				return fmt.Errorf("the last push: %+v", last)
			}
			return nil
		}))
		for _, kind := range []string{"cluster_manager.cds", "listener_manager.lds"} {
			if n := l.stat(e, kind+".update_rejected"); n != 0 {
				t.Errorf("%s.update_rejected = %d", kind, n)
			}
		}
		body, err := lab.Get("http://" + l.discovery.Monitoring + "/metrics")
		l.check(err)
		for _, want := range []string{`pilot_xds_pushes_total{result="acked",type="eds"}`, `pilot_xds{type="sidecar"`, "pilot_proxy_convergence_time_count 1"} {
			if !strings.Contains(body, want) {
				t.Errorf("/metrics has no %s", want)
			}
		}
	})
}

// A listener that cannot be bound is refused: told with Envoy's words, not sent again, and mended by the next change.
func TestADSNack(t *testing.T) {
	t.Parallel()
	overADS(t, func(l *adsLab) {
		l.start(0)
		l.answers("one")
		l.write("sidecar.yaml", strings.ReplaceAll(sidecar, "BIND", "203.0.113.1")) // not an address of this machine
		var nacked ads.ClientType
		l.check(lab.Eventually(stopLimit, func() error {
			var clients []ads.Client
			if err := l.debug("adsz", &clients); err != nil {
				return err
			}
			if nacked = clients[0].Types[2]; nacked.State != ads.StateNacked {
				return fmt.Errorf("LDS is %s", nacked.State)
			}
			return nil
		}))
		if nacked.Nack == nil || !strings.Contains(nacked.Nack.Text, "203.0.113.1") {
			t.Errorf("NACK %+v, want Envoy's words", nacked.Nack)
		}
		l.answers("one")
		sent := l.relay.Down()
		l.write("sidecar.yaml", strings.ReplaceAll(sidecar, "BIND", l.address(9)))
		l.clients(1)
		if grown := l.relay.Down() - sent; grown == 0 {
			t.Error("the mended listener was not sent")
		}
	})
}

const sidecar = `apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: own, namespace: default}
spec:
  ingress: [{port: {number: 8080, name: http, protocol: HTTP}, bind: BIND, defaultEndpoint: "127.0.0.1:9"}]
`

// A connection that breaks, and a server that restarts: nothing is sent again that did not change, no cluster and no
// listener is touched, no request fails.
func TestADSReconnectSendsNothingAnew(t *testing.T) {
	t.Parallel()
	overADS(t, func(l *adsLab) {
		e := l.start(0)
		l.answers("one")
		l.clients(1)
		first := l.relay.Down()
		load := lab.StartLoad(l.proxy, "http://"+adsHost+"/", 2, 1)
		for name, reconnect := range map[string]func(){
			"the connection breaks": l.relay.Cut,
			"the server restarts": func() {
				l.discovery.Stop(stopLimit)
				l.check(l.discovery.Restart())
			},
		} {
			before := l.clients(1)[0].Peer
			modified := l.stat(e, "cluster_manager.cluster_modified") + l.stat(e, "listener_manager.listener_modified")
			down := l.relay.Down()
			reconnect()
			l.check(lab.Eventually(30*time.Second, func() error {
				if again := l.clients(1)[0].Peer; again == before {
					return fmt.Errorf("still the old stream, %s", again)
				}
				return nil
			}))
			bytes := l.relay.Down() - down
			t.Logf("%s: %d bytes, of %d at first", name, bytes, first)
			if bytes > first/20 {
				t.Errorf("%s: %d bytes were sent, of %d at first: want next to nothing", name, bytes, first)
			}
			if now := l.stat(e, "cluster_manager.cluster_modified") + l.stat(e, "listener_manager.listener_modified"); now != modified {
				t.Errorf("%s: %d clusters and listeners were modified", name, now-modified)
			}
		}
		unharmed(t, load)
		l.serve("two") // and what changes is sent
		l.answers("two")
	})
}

// In a hot restart two Envoys of one node are connected; both are told of a change.
func TestADSTwoEpochsOfOneNode(t *testing.T) {
	t.Parallel()
	overADS(t, func(l *adsLab) {
		l.start(0)
		l.answers("one")
		l.clients(1)
		load := lab.StartLoad(l.proxy, "http://"+adsHost+"/", 2, 1)
		l.start(1)
		clients := l.clients(2)
		if clients[0].Node != clients[1].Node || clients[0].Peer == clients[1].Peer {
			t.Errorf("streams %s of %s and %s of %s", clients[0].Peer, clients[0].Node, clients[1].Peer, clients[1].Node)
		}
		l.serve("two")
		l.check(lab.Eventually(stopLimit, func() error {
			var pushes []ads.Push
			if err := l.debug("push_status", &pushes); err != nil {
				return err
			}
			if last := pushes[len(pushes)-1]; last.Responses["eds"] != 2 {
				return fmt.Errorf("the last push: %+v", last)
			}
			return nil
		}))
		l.answers("two")
		l.clients(1) // the parent is gone
		unharmed(t, load)
	})
}

const adsBootstrap = `{
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
