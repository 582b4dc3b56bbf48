//go:build wire

package wire

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
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// pebble is a real ACME server, whose questions go to one address.
type pebble struct {
	t          *testing.T
	dir        string
	httpPort   int
	url        string // of its directory
	management string
	roots      string // file
	authority  *lab.Authority
	spec       lab.Spec
	process    *lab.Process
}

// startPebble starts one that asks at a port of an address, and gives certificates of this life.
func startPebble(t *testing.T, address string, life time.Duration, env ...string) *pebble {
	t.Helper()
	p := &pebble{t: t, dir: t.TempDir(), httpPort: lab.Port(t)}
	listen, management, dns := lab.Port(t), lab.Port(t), lab.Port(t)
	_, err := os.Stat(lab.Path("bin", "pebble", "pebble"))
	if err != nil {
		t.Fatalf("%v: run make e2e-wire, which builds it", err)
	}
	p.authority, err = lab.NewAuthority("pebble")
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
		"httpPort": p.httpPort, "tlsPort": lab.Port(t), "domainBlocklist": []string{"blocked.test"}, "keyAlgorithm": "ecdsa",
		"retryAfter": map[string]int{"authz": 1, "order": 1},
		"profiles":   map[string]any{"default": map[string]any{"description": "of the test", "validityPeriod": int(life.Seconds())}},
	}})
	p.check(err)
	p.check(os.WriteFile(filepath.Join(p.dir, "pebble.json"), config, 0o600))
	resolver, err := lab.Start(lab.Spec{Name: "dns", Dir: p.dir, Argv: []string{
		lab.Path("bin", "pebble", "pebble-challtestsrv"), "-defaultIPv4", address, "-defaultIPv6", "", "-http01", "", "-https01", "", "-doh", "", "-tlsalpn01", "",
		"-dnsserver", fmt.Sprintf("127.0.0.1:%d", dns), "-management", fmt.Sprintf("127.0.0.1:%d", lab.Port(t)),
	}})
	p.check(err)
	t.Cleanup(func() { resolver.Stop(lab.StopLimit) })
	p.spec = lab.Spec{Name: "pebble", Dir: p.dir, Env: append([]string{"PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0"}, env...), Argv: []string{
		lab.Path("bin", "pebble", "pebble"), "-config", filepath.Join(p.dir, "pebble.json"), "-dnsserver", fmt.Sprintf("127.0.0.1:%d", dns),
	}}
	p.start()
	t.Cleanup(func() { p.stop() })
	return p
}

func (p *pebble) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *pebble) start() {
	p.t.Helper()
	var err error
	p.process, err = lab.Start(p.spec)
	p.check(err)
	p.check(lab.Eventually(lab.StopLimit, func() error { _, err := p.root(); return err }))
}

func (p *pebble) stop() {
	p.process.Signal(syscall.SIGCONT)
	p.process.Stop(lab.StopLimit)
}

// flags are those of the page, with this issuer instead of the public one, for the gateways of default/gw.
func (p *pebble) flags() []string {
	p.t.Helper()
	typed := strings.Fields(lab.Command(p.t, "docs/certificates.md", "--acmeIssuer"))
	flags := typed[slices.Index(typed, "--acmeIssuer"):]
	if len(flags) != 4 || flags[2] != "--acmeGateways" {
		p.t.Fatalf("the page ends with %q, want --acmeIssuer and --acmeGateways", flags)
	}
	name, _, _ := strings.Cut(flags[1], "=")
	_, options, _ := strings.Cut(flags[1], ",")
	return []string{flags[0], name + "=" + p.url + "," + options + ",roots=" + p.roots, flags[2], "default/gw"}
}

// root returns the root of the certificates that it gives.
func (p *pebble) root() (*x509.CertPool, error) {
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
