package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// afar is a discovery with a secure port, and certificates of its mesh.
type afar struct {
	t       *testing.T
	address string
	mesh    *lab.Authority
	dir     string
	made    int64
}

func startAfar(t *testing.T, more ...string) *afar {
	t.Helper()
	a := &afar{t: t, dir: t.TempDir()}
	var err error
	a.mesh, err = lab.NewAuthority("mesh")
	a.check(err)
	port, err := lab.FreePort()
	a.check(err)
	a.address = net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
	own, err := a.mesh.IssueWith("discovery.test", 2, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} })
	a.check(err)
	a.check(own.Mount(a.dir))
	objects := t.TempDir()
	a.check(os.WriteFile(filepath.Join(objects, "mesh.yaml"), []byte(meshOfAfar), 0o600))
	settings := filepath.Join(t.TempDir(), "mesh.yaml")
	a.check(os.WriteFile(settings, []byte("rootNamespace: control\ntrustDomain: new.example\ntrustDomainAliases: [old.example]\n"), 0o600))
	s := startServe(t, append([]string{
		"--configDir", objects, "--meshConfig", settings, "--secureGRPCAddr", a.address, "--tlsCertFile", filepath.Join(a.dir, "cert-chain.pem"),
		"--tlsKeyFile", filepath.Join(a.dir, "key.pem"), "--caCertFile", filepath.Join(a.dir, "root-cert.pem"),
	}, more...)...)
	t.Cleanup(func() { s.stop(t) })
	s.awaitText(t, "/ready", "ready\n")
	return a
}

const meshOfAfar = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: api, namespace: shop}
spec:
  hosts: [api.shop.example]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: 10.0.0.7}]
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: web, namespace: shop}
spec: {address: 10.0.0.8, labels: {app: web}}
`

func (a *afar) check(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// mount makes a certificate, and returns the directory of its files.
func (a *afar) mount(from *lab.Authority, id string, change func(*x509.Certificate)) string {
	a.t.Helper()
	a.made++
	dir := a.t.TempDir()
	i, err := from.IssueWith(id, 10+a.made, change)
	a.check(err)
	a.check(i.Mount(dir))
	a.check(os.WriteFile(filepath.Join(dir, "root-cert.pem"), a.mesh.PEM(), 0o600))
	return dir
}

func unchanged(*x509.Certificate) {}

func (a *afar) flags(dir string, args ...string) []string {
	return append(args, "--discoveryAddress", a.address, "--tlsCertFile", filepath.Join(dir, "cert-chain.pem"), "--tlsKeyFile", filepath.Join(dir, "key.pem"),
		"--caCertFile", filepath.Join(dir, "root-cert.pem"))
}

func (a *afar) says(args ...string) (code int, said string) {
	var out, faults strings.Builder
	code = run(a.t.Context(), args, nil, &out, &faults)
	return code, out.String() + faults.String()
}

// get asks for a page with the certificate of a directory; "" for none.
func (a *afar) get(dir, method, path string, headers ...string) (code int, text string) {
	a.t.Helper()
	config := &tls.Config{RootCAs: a.mesh.Pool()}
	if dir != "" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert-chain.pem"), filepath.Join(dir, "key.pem"))
		a.check(err)
		config.Certificates = []tls.Certificate{pair}
	}
	r, err := http.NewRequestWithContext(a.t.Context(), method, "https://"+a.address+path, nil)
	a.check(err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	a.check(err)
	if !answer.Close {
		a.t.Errorf("%s %s: the connection stays open", method, path)
	}
	return answer.StatusCode, string(body)
}

const admin = "spiffe://new.example/ns/control/sa/operator"

// A certificate of the root namespace sees the mesh at the secure port, and no other one does: with files alone, and beside an authority.
func TestAskFromAfar(t *testing.T) {
	for name, more := range map[string][]string{"files": nil, "an authority": {"--ca", "--caDir", t.TempDir() + "/ca"}} {
		t.Run(name, func(t *testing.T) {
			a := startAfar(t, more...)
			other, err := lab.NewAuthority("other")
			a.check(err)
			const refused = "refuses the certificate: it wants one of the mesh's root namespace"
			own := a.mount(a.mesh, admin, unchanged)
			for _, row := range []struct {
				dir, said string
				code      int
			}{
				{own, "PROXY", 0},
				{a.mount(a.mesh, "spiffe://old.example/ns/control/sa/operator", unchanged), "PROXY", 0}, // an alias
				{a.mount(a.mesh, "spiffe://new.example/ns/shop/sa/operator", unchanged), refused, 1},
				{a.mount(a.mesh, "spiffe://new.example/ns/istio-system/sa/operator", unchanged), refused, 1}, // the root namespace of others
				{a.mount(a.mesh, "spiffe://evil.example/ns/control/sa/operator", unchanged), refused, 1},
				{a.mount(a.mesh, "spiffe://new.example/ns/control/sa/operator/more", unchanged), refused, 1},
				{a.mount(a.mesh, "operator.control", unchanged), refused, 1},
				{a.mount(a.mesh, admin, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), "expired certificate", 1},
				{a.mount(other, admin, unchanged), "certificate", 1},
			} {
				if code, said := a.says(a.flags(row.dir, "status")...); code != row.code || !strings.Contains(said, row.said) {
					t.Errorf("status: exit %d, want %d, and %q in\n%s", code, row.code, row.said, said)
				}
			}
			for _, row := range []struct {
				args []string
				said string
				code int
			}{
				{[]string{"config", "nobody"}, "nobody", 1},
				{[]string{"explain", "--from", "shop/web", "--to", "api.shop.example"}, "10.0.0.7", 0},
				{[]string{"status", "--discoveryName", "discovery.test"}, "PROXY", 0},
				{[]string{"status", "--discoveryName", "other.test"}, "not other.test", 1},
				{[]string{"status", "--discoveryName", "spiffe://new.example/ns/control/sa/discovery"}, "the server's identity", 1},
				{[]string{"status", "--discoveryName", "spiffe://"}, "is not a SPIFFE ID", 1},
			} {
				if code, said := a.says(a.flags(own, row.args...)...); code != row.code || !strings.Contains(said, row.said) {
					t.Errorf("%q: exit %d, want %d, and %q in\n%s", row.args, code, row.code, row.said, said)
				}
			}
		})
	}
}

// A workload learns nothing at the secure port: every page answers alike, whether it is there or not. Nor does an operator change anything.
func TestStrangersLearnNothing(t *testing.T) {
	a := startAfar(t, "--ca", "--caDir", t.TempDir()+"/ca")
	own, shop := a.mount(a.mesh, admin, unchanged), a.mount(a.mesh, "spiffe://new.example/ns/shop/sa/web", unchanged)
	const refused = `{"error":"refused"}` + "\n"
	for _, path := range []string{
		"/", "/page/data", "/v1/registration", "/debug", "/debug/", "/debug/proxies", "/debug/none", "/debug/config_dump?proxyID=web.shop",
		"/debug/explain?from=shop/web&to=api.shop.example", "/debug/pprof/", "/debug/configz",
	} {
		for _, dir := range []string{"", shop} {
			for _, method := range []string{"GET", "POST"} {
				if code, text := a.get(dir, method, path); code != 403 || text != refused {
					t.Errorf("%s %s: %d %s", method, path, code, text)
				}
			}
		}
	}
	for _, row := range []struct {
		method, path string
		headers      []string
		code         int
		text         string
	}{
		{"GET", "/debug/configz", nil, 200, "api.shop.example"},
		{"GET", "/v1/registration", nil, 200, "10.0.0.7"},
		{"GET", "/", nil, 200, "<html"},
		{"GET", "/page/data", nil, 200, `"services"`},
		{"GET", "/debug/pprof/", nil, 404, ""},
		{"GET", "/debug/pprof/heap", nil, 404, ""},
		{"POST", "/debug/release?source=proxies", nil, 404, ""},
		{"POST", "/debug/configz", nil, 405, ""},
		{"GET", "/debug/configz", []string{"X-Forwarded-For", "192.0.2.1"}, 403, refused}, // a gateway of the root namespace lends nobody its certificate
		{"GET", "/debug/configz", []string{"X-Request-Id", "1"}, 403, refused},
		{"GET", "/debug/configz", []string{"Origin", "https://evil.test"}, 403, refused}, // nor does a browser
		{"GET", "/", []string{"Sec-Fetch-Site", "cross-site"}, 403, refused},
	} {
		if code, text := a.get(own, row.method, row.path, row.headers...); code != row.code || !strings.Contains(text, row.text) {
			t.Errorf("%+v: %d %.200s", row, code, text)
		}
	}
}

// Without an authority there is no way to the port without a certificate, and nothing else than pages there.
func TestDoorOfFilesAlone(t *testing.T) {
	a := startAfar(t)
	if code, text := a.get("", "GET", "/debug/configz"); code != 0 || !strings.Contains(text, "certificate required") {
		t.Errorf("without a certificate: %d %s", code, text)
	}
	own := a.mount(a.mesh, admin, unchanged)
	if code, text := a.says("status", "--discoveryAddress", a.address); code != 2 || !strings.Contains(text, "--tlsCertFile is missing") {
		t.Errorf("no files: %d %s", code, text)
	}
	for _, args := range [][]string{{"status", "--tlsKeyFile", "x"}, {"status", "--discoveryAddress", ""}} {
		if code, text := a.says(args...); code != 2 || !strings.Contains(text, "without an address in --discoveryAddress") {
			t.Errorf("%q: %d %s", args, code, text)
		}
	}
	for _, row := range [][]string{{"status", "--httpAddr", ":1"}, {"explain", "--configDir", "x", "--from", "shop/web", "--to", "a"}} {
		if code, text := a.says(a.flags(own, row...)...); code != 2 || !strings.Contains(text, "--discoveryAddress") {
			t.Errorf("%q: %d %s", row, code, text)
		}
	}
}

// A thousand connections of workloads, silent ones and half of them with a certificate, do not keep an operator out.
func TestAThousandConnectionsAtTheDoor(t *testing.T) {
	a := startAfar(t)
	own, shop := a.mount(a.mesh, admin, unchanged), a.mount(a.mesh, "spiffe://new.example/ns/shop/sa/web", unchanged)
	pair, err := tls.LoadX509KeyPair(filepath.Join(shop, "cert-chain.pem"), filepath.Join(shop, "key.pem"))
	a.check(err)
	config := &tls.Config{RootCAs: a.mesh.Pool(), ServerName: "127.0.0.1", Certificates: []tls.Certificate{pair}, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	for i := range 1000 {
		conn, err := net.Dial("tcp", a.address)
		a.check(err)
		defer conn.Close()
		if i%2 == 0 {
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			a.check(tls.Client(conn, config).Handshake())
		}
	}
	if code, said := a.says(a.flags(own, "status")...); code != 0 || !strings.Contains(said, "PROXY") {
		t.Errorf("exit %d: %s", code, said)
	}
}
