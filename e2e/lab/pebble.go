package lab

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Pebble is a real ACME server, whose questions go to one address.
type Pebble struct {
	*Process
	Port       int // at which it asks
	t          *testing.T
	dir        string
	url        string // of its directory
	management string
	roots      string // file
	authority  *Authority
	spec       Spec
}

// StartPebble starts one that asks at a port of an address, and gives certificates of this life. It is built by envoy-tools/fetch-pebble.
func StartPebble(t *testing.T, address string, port int, life time.Duration) *Pebble {
	t.Helper()
	p := &Pebble{t: t, dir: t.TempDir(), Port: port}
	listen, management, dns := Port(t), Port(t), Port(t)
	_, err := os.Stat(Path("bin", "pebble", "pebble"))
	if err != nil {
		t.Fatalf("%v: run envoy-tools/fetch-pebble, as the targets of make do", err)
	}
	p.authority, err = NewAuthority("pebble")
	p.check(err)
	own, err := p.authority.IssueWith("localhost", 7, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} })
	p.check(err)
	for name, text := range map[string][]byte{"cert.pem": own.Chain, "key.pem": own.Key, "roots.pem": p.authority.PEM()} {
		p.check(os.WriteFile(filepath.Join(p.dir, name), text, 0o600))
	}
	p.roots = filepath.Join(p.dir, "roots.pem")
	p.url = fmt.Sprintf("https://localhost:%d/dir", listen)
	p.management = fmt.Sprintf("https://localhost:%d", management)
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": fmt.Sprintf("127.0.0.1:%d", listen), "managementListenAddress": fmt.Sprintf("127.0.0.1:%d", management),
		"certificate": filepath.Join(p.dir, "cert.pem"), "privateKey": filepath.Join(p.dir, "key.pem"),
		"httpPort": p.Port, "tlsPort": Port(t), "domainBlocklist": []string{"blocked.test"}, "keyAlgorithm": "ecdsa",
		"retryAfter": map[string]int{"authz": 1, "order": 1},
		"profiles":   map[string]any{"default": map[string]any{"description": "of the test", "validityPeriod": int(life.Seconds())}},
	}})
	p.check(err)
	p.check(os.WriteFile(filepath.Join(p.dir, "pebble.json"), config, 0o600))
	resolver, err := Start(Spec{Name: "dns", Dir: p.dir, Argv: []string{
		Path("bin", "pebble", "pebble-challtestsrv"), "-defaultIPv4", address, "-defaultIPv6", "", "-http01", "", "-https01", "", "-doh", "", "-tlsalpn01", "",
		"-dnsserver", fmt.Sprintf("127.0.0.1:%d", dns), "-management", fmt.Sprintf("127.0.0.1:%d", Port(t)),
	}})
	p.check(err)
	t.Cleanup(func() { resolver.Stop(StopLimit) })
	p.spec = Spec{Name: "pebble", Dir: p.dir, Env: []string{"PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0"}, Argv: []string{
		Path("bin", "pebble", "pebble"), "-config", filepath.Join(p.dir, "pebble.json"), "-dnsserver", fmt.Sprintf("127.0.0.1:%d", dns),
	}}
	p.start()
	t.Cleanup(func() { p.stop() })
	return p
}

func (p *Pebble) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *Pebble) start() {
	p.t.Helper()
	var err error
	p.Process, err = Start(p.spec)
	p.check(err)
	p.check(Eventually(StopLimit, func() error { _, err := p.Root(); return err }))
}

func (p *Pebble) stop() {
	p.Process.Signal(syscall.SIGCONT)
	p.Process.Stop(StopLimit)
}

// Issuer returns a value of --acmeIssuer with this issuer instead of the public one.
func (p *Pebble) Issuer(typed string) string {
	name, _, _ := strings.Cut(typed, "=")
	_, options, _ := strings.Cut(typed, ",")
	return name + "=" + p.url + "," + options + ",roots=" + p.roots
}

// Orders returns how many orders it has taken, without requests whose nonce it refused, and Issued how many certificates it has given.
func (p *Pebble) Orders() int { return strings.Count(p.Log(), "Added order ") }

// Issued is described at Orders.
func (p *Pebble) Issued() int { return strings.Count(p.Log(), "Issued certificate serial") }

// Root returns the root of the certificates that it gives.
func (p *Pebble) Root() (*x509.CertPool, error) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.authority.Pool()}, DisableKeepAlives: true}}
	answer, err := client.Get(p.management + "/roots/0")
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(text) {
		err = fmt.Errorf("pebble's root is %q", text)
	}
	return pool, err
}
