package policies

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pilotlight/pilotlight/discovery/authz"
	"github.com/pilotlight/pilotlight/discovery/authz/authztest"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

func TestMain(m *testing.M) { lab.Main(m, lab.Suite{Name: "e2e/policies"}) }

const rowsFile = "discovery/authz/testdata/rows.yaml"

// judge is an Envoy with a listener of HTTP and one of connections for each row, in plain text and in TLS.
type judge struct {
	t          *testing.T
	http, tcp  []int // their ports, by row
	roots      *lab.Authority
	identities map[string]tls.Certificate
}

// The real Envoy judges each row as the rows say: by certificates over TLS, addresses of both families, ports, headers.
func TestRowsAtEnvoy(t *testing.T) {
	t.Parallel()
	rows := authztest.Rows(t, lab.Path(rowsFile))
	j := startJudge(t, rows)
	asked := 0
	for i, row := range rows {
		for want, requests := range map[bool][]authztest.Request{true: row.Allow, false: row.Deny} {
			for _, r := range requests {
				asked++
				if got := j.allows(i, r.Whole()); got != want {
					t.Errorf("%s: %+v is let in: %t, want %t", row.Name, r.Whole(), got, want)
				}
			}
		}
	}
	t.Logf("%d rows, %d requests", len(rows), asked)
}

func startJudge(t *testing.T, rows []authztest.Row) *judge {
	t.Helper()
	roots, err := lab.NewAuthority("mesh")
	if err != nil {
		t.Fatal(err)
	}
	j := &judge{t: t, roots: roots, identities: map[string]tls.Certificate{}}
	dir := t.TempDir()
	own, err := roots.Issue("server.test", 2)
	if err == nil {
		err = own.Write(dir, "server")
	}
	if err != nil {
		t.Fatal(err)
	}
	var listeners []any
	for i, row := range rows {
		guard := authz.Of(row.Read(t), authz.Proxy{TrustDomains: []string{"cluster.local", "alias.test"}})
		j.http, j.tcp = append(j.http, lab.Port(t)), append(j.tcp, lab.Port(t))
		listeners = append(listeners,
			listener(fmt.Sprintf("http-%d", i), j.http[i], dir, httpFilters(t, guard)),
			listener(fmt.Sprintf("tcp-%d", i), j.tcp[i], dir, tcpFilters(t, guard)))
	}
	admin := lab.Port(t)
	bootstrap, err := json.Marshal(map[string]any{
		"node":             map[string]any{"id": "judge", "cluster": "judge"},
		"admin":            map[string]any{"address": json.RawMessage(lab.SocketAddress(fmt.Sprintf("127.0.0.1:%d", admin)))},
		"static_resources": map[string]any{"listeners": listeners},
		"layered_runtime": map[string]any{"layers": []any{map[string]any{"name": "static", "static_layer": map[string]any{
			"re2.max_program_size.error_level": 32768,
		}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "envoy.json")
	if err := os.WriteFile(path, bootstrap, 0o600); err != nil {
		t.Fatal(err)
	}
	envoy, err := lab.FindEnvoy()
	if err != nil {
		t.Fatal(err)
	}
	p, err := lab.Start(lab.Spec{Name: "judge", Dir: dir, Argv: []string{envoy, "--config-path", path, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(lab.StopLimit) })
	if err := lab.Eventually(time.Minute, func() error {
		_, err := lab.Get(fmt.Sprintf("http://127.0.0.1:%d/ready", admin))
		return err
	}); err != nil {
		log, _ := os.ReadFile(p.LogFile)
		t.Fatalf("%v: %.3000s", err, log)
	}
	if err := lab.AwaitWorkers(fmt.Sprintf("127.0.0.1:%d", admin)); err != nil {
		t.Fatal(err)
	}
	return j
}

func typed(name, message string, config map[string]any) any {
	config["@type"] = "type.googleapis.com/" + message
	return map[string]any{"name": name, "typed_config": config}
}

// listener returns a listener whose chains have these filters; a PROXY header says to which address and port a client
// has dialled.
func listener(name string, port int, dir string, filters []any) any {
	secured := typed("envoy.transport_sockets.tls", "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext", map[string]any{
		"require_client_certificate": true,
		"common_tls_context": map[string]any{
			"tls_certificates":   []any{map[string]any{"certificate_chain": file(dir, "server.pem"), "private_key": file(dir, "server.key")}},
			"validation_context": map[string]any{"trusted_ca": file(dir, "ca.pem")},
		},
	})
	return map[string]any{
		"name": name, "address": json.RawMessage(lab.SocketAddress(fmt.Sprintf("127.0.0.1:%d", port))),
		"additional_addresses": []any{map[string]any{"address": json.RawMessage(lab.SocketAddress(fmt.Sprintf("[::1]:%d", port)))}},
		"listener_filters": []any{
			typed("proxy", "envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol", map[string]any{}),
			typed("tls", "envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector", map[string]any{}),
		},
		"filter_chains": []any{
			map[string]any{"filter_chain_match": map[string]any{"transport_protocol": "tls"}, "filters": filters, "transport_socket": secured},
			map[string]any{"filter_chain_match": map[string]any{"transport_protocol": "raw_buffer"}, "filters": filters},
		},
	}
}

func file(dir, name string) any { return map[string]any{"filename": filepath.Join(dir, name)} }

func made(t *testing.T, filters []authz.Filter) (out []any) {
	t.Helper()
	for _, f := range filters {
		text, err := protojson.Marshal(f.Config)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, map[string]any{"name": f.Name, "typed_config": json.RawMessage(text)})
	}
	return out
}

func httpFilters(t *testing.T, g authz.Guard) []any {
	t.Helper()
	router := typed("router", "envoy.extensions.filters.http.router.v3.Router", map[string]any{})
	return []any{typed("http", "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", map[string]any{
		"stat_prefix": "http", "normalize_path": true, "use_remote_address": false,
		"route_config": json.RawMessage(`{"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
			{"match": {"prefix": "/"}, "direct_response": {"status": 200}}]}]}`),
		"http_filters": append(made(t, g.HTTP), router),
	})}
}

func tcpFilters(t *testing.T, g authz.Guard) []any {
	t.Helper()
	return append(made(t, g.TCP), typed("echo", "envoy.extensions.filters.network.echo.v3.Echo", map[string]any{}))
}

// allows asks a row's listener.
func (j *judge) allows(row int, r authztest.Request) bool {
	j.t.Helper()
	conn, err := j.dial(row, r)
	if err != nil {
		j.t.Fatalf("%+v: %v", r, err)
	}
	defer conn.Close()
	if r.Connection {
		if _, err := conn.Write([]byte("let in")); err != nil {
			return false
		}
		answer := make([]byte, len("let in"))
		_, err := io.ReadFull(conn, answer)
		return err == nil
	}
	request, err := http.NewRequest(r.Method, "http://"+r.Host+r.Path, http.NoBody)
	if err != nil {
		j.t.Fatal(err)
	}
	for name, value := range r.Headers {
		request.Header.Set(name, value)
	}
	if r.Remote != r.Peer {
		request.Header.Set("X-Forwarded-For", r.Remote)
	}
	client := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }, DisableKeepAlives: true}
	answer, err := client.RoundTrip(request)
	if err != nil {
		j.t.Fatalf("%+v: %v", r, err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusForbidden {
		j.t.Errorf("%+v is answered %d", r, answer.StatusCode)
	}
	return answer.StatusCode == http.StatusOK
}

// dial connects from the request's peer, and says where it wanted to go.
func (j *judge) dial(row int, r authztest.Request) (net.Conn, error) {
	port, to, family := j.http[row], "127.0.0.1", "TCP4"
	if r.Connection {
		port = j.tcp[row]
	}
	if strings.Contains(r.Peer, ":") {
		to, family, r.Address = "::1", "TCP6", "::1"
	}
	dialer := net.Dialer{Timeout: lab.StopLimit, LocalAddr: &net.TCPAddr{IP: net.ParseIP(r.Peer)}}
	conn, err := dialer.Dial("tcp", net.JoinHostPort(to, fmt.Sprint(port)))
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "PROXY %s %s %s 4321 %d\r\n", family, r.Peer, r.Address, r.Port); err != nil {
		return nil, err
	}
	if r.Principal == "" {
		return conn, nil
	}
	if _, known := j.identities[r.Principal]; !known {
		id, err := j.roots.Issue(r.Principal, 3)
		if err != nil {
			return nil, err
		}
		if j.identities[r.Principal], err = id.Pair(); err != nil {
			return nil, err
		}
	}
	secured := tls.Client(conn, &tls.Config{
		RootCAs: j.roots.Pool(), ServerName: "server.test", Certificates: []tls.Certificate{j.identities[r.Principal]},
	})
	if r.ServerName != "" { // of no certificate: Envoy sees it, and the test is not about the server
		secured = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: r.ServerName, Certificates: []tls.Certificate{j.identities[r.Principal]}})
	}
	return secured, nil
}
