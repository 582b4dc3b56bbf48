package agent

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent/sds"
	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// The names in certificates of discovery, and of a sidecar of namespace default.
const (
	pilot    = "spiffe://cluster.local/ns/istio-system/sa/istio-pilot-service-account"
	workload = "spiffe://cluster.local/ns/default/sa/default"
)

// authorityOf makes a root.
func (w *world) authorityOf(name string) *lab.Authority {
	w.T.Helper()
	a, err := lab.NewAuthority(name)
	w.Check(err)
	return a
}

// secure starts a second discovery, whose ADS wants mutual TLS and presents an identity, and returns its host:port.
func (w *world) secure(own lab.Identity, roots []byte) string {
	w.T.Helper()
	dir := w.T.TempDir()
	flags := []string{"--secureGRPCAddr", fmt.Sprintf("127.0.0.1:%d", lab.Port(w.T))}
	address := flags[1]
	for flag, data := range map[string][]byte{"--tlsCertFile": own.Chain, "--tlsKeyFile": own.Key, "--caCertFile": roots} {
		path := filepath.Join(dir, strings.TrimLeft(flag, "-"))
		w.Check(os.WriteFile(path, data, 0o600))
		flags = append(flags, flag, path)
	}
	d, err := lab.Lab{Bin: w.Bin, Envoy: w.Envoy, Dir: dir}.Discovery(w.Config, flags...)
	w.Check(err)
	w.T.Cleanup(func() { d.Stop(lab.StopLimit) })
	return address
}

// mutual makes a proxy speak mutual TLS, and returns the server of its secrets.
func (w *world) mutual(p *bootstrap.Params, address string, own lab.Identity) *sds.Server {
	w.T.Helper()
	var err error
	p.Discovery.Address, err = bootstrap.ParseAddress(address)
	w.Check(err)
	p.Discovery.TLS = &bootstrap.TLS{Chain: "cert-chain.pem", Key: "key.pem", Roots: "root-cert.pem", SAN: pilot}
	p.SecretsSocket = filepath.Join(lab.ShortDir(w.T), "sds.sock")
	listener, err := net.Listen("unix", p.SecretsSocket)
	w.Check(err)
	secrets := &sds.Server{Log: slog.New(slog.DiscardHandler)}
	secrets.Set(secretsOf(own))
	server := secrets.NewHTTPServer(secrets.Log)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	w.T.Cleanup(func() { _ = server.Close(); serving.Wait() })
	return secrets
}

func secretsOf(i lab.Identity) sds.Secrets { return sds.NewSecrets(i.Chain, i.Key, i.Roots) }

// identity is a certificate with a URI as its name, and with those that discovery has on this machine.
func (w *world) identity(a *lab.Authority, san string, serial int64, until time.Time) lab.Identity {
	w.T.Helper()
	uri, err := url.Parse(san)
	w.Check(err)
	identity, err := a.IssueWith("pilot.test", serial, func(c *x509.Certificate) {
		c.URIs, c.NotAfter, c.IPAddresses = []*url.URL{uri}, until, []net.IP{net.IPv4(127, 0, 0, 1)}
	})
	w.Check(err)
	return identity
}

// Configuration comes over mutual TLS, in both variants, and new certificates of the proxy are taken when Envoy gets
// them.
func TestBootstrapMutualTLS(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Service("app.test", w.Backend("app"))
	authority, later := w.authorityOf("mesh"), time.Now().Add(time.Hour)
	address := w.secure(w.identity(authority, pilot, 1, later), authority.PEM())
	for _, test := range []struct {
		variant   bootstrap.Variant
		san, host string
	}{
		{bootstrap.SotW, pilot, "127.0.0.1"},
		{bootstrap.Delta, "pilot.test", "localhost"}, // by DNS
		{bootstrap.Delta, "127.0.0.1", "127.0.0.1"},
	} {
		t.Run(test.san, func(t *testing.T) {
			params := w.params("mutual")
			params.Discovery.Variant = test.variant
			secrets := w.mutual(&params, address, w.identity(authority, workload, 1001, later))
			params.Discovery.Host, params.Discovery.TLS.SAN = test.host, test.san
			p := w.boot(params).Ready()
			p.Until(lab.From("app"), "http://app.test/")
			serves := func(serial string) {
				w.Check(lab.Eventually(lab.StopLimit, func() error {
					body, err := lab.Get("http://" + p.Admin + "/certs")
					if err == nil && !strings.Contains(body, `"serial_number": "`+serial+`"`) {
						err = fmt.Errorf("no certificate %s in %s", serial, body)
					}
					return err
				}))
			}
			serves("03e9")
			secrets.Set(secretsOf(w.identity(authority, workload, 1002, later)))
			serves("03ea")
			p.Stop(lab.StopLimit)
		})
	}
}

// Envoy refuses a discovery that is not the one: it has no configuration of it, and says why.
func TestBootstrapRefusesDiscovery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	authority := w.authorityOf("mesh")
	later := time.Now().Add(time.Hour)
	for _, test := range []struct {
		name    string
		present lab.Identity
		counter string // of Envoy, which says why
	}{
		{"another SAN", w.identity(authority, pilot+"-other", 1, later), "fail_verify_san"},
		{"an expired certificate", w.identity(authority, pilot, 1, time.Now().Add(-time.Minute)), "fail_verify_error"},
		{"a foreign root", w.identity(w.authorityOf("foreign"), pilot, 1, later), "fail_verify_error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			params := w.params(strings.ReplaceAll(test.name, " ", "-"))
			w.mutual(&params, w.secure(test.present, authority.PEM()), w.identity(authority, workload, 1, later))
			p := w.boot(params)
			w.Check(lab.Eventually(30*time.Second, func() error {
				stats, err := lab.Stats(p.Admin, `^(cluster\.xds-grpc\.ssl\.|cluster_manager\.cds\.update)`)
				switch {
				case err != nil:
					return err
				case stats["cluster.xds-grpc.ssl."+test.counter] < 2: // and it tries again
					return fmt.Errorf("it does not refuse: %v", stats)
				case stats["cluster.xds-grpc.ssl.handshake"] != 0 || stats["cluster_manager.cds.update_success"] != 0:
					t.Errorf("it took the connection: %v", stats)
				}
				return nil
			}))
			if _, err := lab.Get("http://" + p.Admin + "/ready"); err == nil || !strings.Contains(err.Error(), "503") {
				t.Errorf("/ready: got %v, want 503", err)
			}
		})
	}
}
