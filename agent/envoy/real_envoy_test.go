package envoy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// realEnvoy runs the real Envoy with listeners 127.32.7.1:{http,tcp,tls} in front of an upstream that answers
// /slow only when release is closed.
type realEnvoy struct {
	*Admin
	process        *lab.Process
	http, tcp, tls string // host:port
	dir            string
	release        chan struct{}
}

func startReal(t *testing.T, flags ...string) *realEnvoy {
	t.Helper()
	binary, err := lab.FindEnvoy()
	if err != nil {
		t.Fatal(err)
	}
	e := &realEnvoy{dir: t.TempDir(), release: make(chan struct{})}
	e.Admin = NewAdmin(filepath.Join(e.dir, "admin.sock"))
	for _, address := range []*string{&e.http, &e.tcp, &e.tls} {
		port, err := lab.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		*address = fmt.Sprintf("127.32.7.1:%d", port)
	}
	e.rotate(t, 0x3e9)
	config := filepath.Join(e.dir, "bootstrap.json")
	if err := os.WriteFile(config, e.bootstrap(e.upstream(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	argv := append([]string{binary, "--config-path", config, "--disable-hot-restart", "--concurrency", "2"}, flags...)
	// Its log is away from the secrets: Envoy watches their directory, and logs what it sees there.
	if e.process, err = lab.Start(lab.Spec{Name: "envoy", Dir: t.TempDir(), Argv: argv}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.process.Stop(5 * time.Second) })
	if err := lab.Eventually(patient, func() error { return e.Ready(t.Context()) }); err != nil {
		t.Fatalf("%v:\n%s", err, e.process.Log())
	}
	return e
}

// upstream answers /slow when release is closed, echoes an upgraded connection, and answers all else at once.
func (e *realEnvoy) upstream(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.32.7.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Upgrade") != "":
			w.Header().Set("Upgrade", "websocket")
			w.Header().Set("Connection", "Upgrade")
			w.WriteHeader(http.StatusSwitchingProtocols)
			conn, buffered, _ := http.NewResponseController(w).Hijack()
			io.Copy(conn, buffered)
			conn.Close()
		case r.URL.Path == "/slow":
			<-e.release
		}
	})}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(listener) }()
	t.Cleanup(func() { close(e.release); server.Close(); <-done })
	return listener.Addr().String()
}

func (e *realEnvoy) bootstrap(upstream string) []byte {
	type m = map[string]any
	typed := func(name, kind string, more m) m {
		more["@type"] = "type.googleapis.com/envoy.extensions." + kind
		return m{"name": name, "typed_config": more}
	}
	address := func(hostPort string) m {
		host, port, _ := strings.Cut(hostPort, ":")
		return m{"socket_address": m{"address": host, "port_value": json.Number(port)}}
	}
	manager := func(prefix string) m {
		return typed("http", "filters.network.http_connection_manager.v3.HttpConnectionManager", m{
			"stat_prefix": prefix, "upgrade_configs": []m{{"upgrade_type": "websocket"}},
			"route_config": m{"virtual_hosts": []m{{"name": "all", "domains": []string{"*"}, "routes": []m{{
				"match": m{"prefix": "/"}, "route": m{"cluster": "app", "timeout": "0s"},
			}}}}},
			"http_filters": []m{typed("router", "filters.http.router.v3.Router", m{})},
		})
	}
	listener := func(at string, chain m) m {
		return m{"name": at, "address": address(at), "filter_chains": []m{chain}}
	}
	cluster := func(name string, thresholds m) m {
		return m{
			"name": name, "type": "STATIC",
			"circuit_breakers": m{"thresholds": []m{thresholds}},
			"load_assignment": m{"cluster_name": name, "endpoints": []m{{"lb_endpoints": []m{{
				"endpoint": m{"address": address(upstream)},
			}}}}},
		}
	}
	secret := m{"name": "server", "sds_config": m{"path_config_source": m{
		"path": filepath.Join(e.dir, "secret.json"), "watched_directory": m{"path": e.dir},
	}}}
	data, err := json.Marshal(m{
		"node":  m{"id": "test", "cluster": "test"},
		"admin": m{"address": m{"pipe": m{"path": e.Socket, "mode": 0o600}}},
		"static_resources": m{
			"listeners": []m{
				listener(e.http, m{"filters": []m{manager("inbound_0.0.0.0_80")}}),
				listener(e.tcp, m{"filters": []m{
					typed("tcp", "filters.network.tcp_proxy.v3.TcpProxy", m{"stat_prefix": "tcp", "cluster": "tcp"}),
				}}),
				listener(e.tls, m{
					"filters": []m{manager("secure")},
					"transport_socket": typed("tls", "transport_sockets.tls.v3.DownstreamTlsContext", m{
						"common_tls_context": m{"tls_certificate_sds_secret_configs": []m{secret}},
					}),
				}),
			},
			"clusters": []m{cluster("app", m{"max_connections": 2}), cluster("tcp", m{})}, // whose connections do not count for app's
		},
	})
	if err != nil {
		panic(err) // the test's own text
	}
	return data
}

// rotate writes a certificate of a serial and the secret that holds it.
func (e *realEnvoy) rotate(t *testing.T, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour).Truncate(time.Second),
	}
	chain, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) map[string]any {
		return map[string]any{"inline_string": string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))}
	}
	secret, err := json.Marshal(map[string]any{"resources": []any{map[string]any{
		"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", "name": "server",
		"tls_certificate": map[string]any{
			"certificate_chain": text("CERTIFICATE", chain), "private_key": text("PRIVATE KEY", der),
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := writeFile(filepath.Join(e.dir, "secret.json"), string(secret)); err != nil {
		t.Fatal(err)
	}
}

func warm(t *testing.T, transport *http.Transport, url string) {
	t.Helper()
	response, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
}

// awaitConnections waits until Envoy sees as many connections to an address.
func (e *realEnvoy) awaitConnections(t *testing.T, address string, want int) {
	t.Helper()
	name := "listener." + strings.ReplaceAll(address, ":", "_") + ".downstream_cx_active"
	err := lab.Eventually(patient, func() error {
		stats, err := e.Stats(t.Context(), "^listener")
		if err == nil && stats[name] != int64(want) {
			err = fmt.Errorf("%s: %d, want %d", name, stats[name], want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
