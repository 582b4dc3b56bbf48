package traffic

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// secretFolder writes a secret of the namespace default.
func secretFolder(w *world, dir, name string, files map[string][]byte) {
	w.T.Helper()
	folder := filepath.Join(dir, "default", name)
	w.Check(os.MkdirAll(folder, 0o755))
	for file, data := range files {
		w.Check(os.WriteFile(filepath.Join(folder, file), data, 0o600))
	}
}

// A Gateway names its certificate by credentialName: it is served from files, and again when those change. A name that
// nobody has costs its own host, not the listener that others have a server of.
func TestGatewayCredentials(t *testing.T) {
	t.Parallel()
	for _, variant := range []string{"GRPC", "DELTA_GRPC"} {
		t.Run(variant, func(t *testing.T) {
			dir := t.TempDir()
			w := newWorld(t, "--secretsDir", dir, "--plaintextSecrets")
			w.API = variant
			ca, err := lab.NewAuthority("clients")
			w.Check(err)
			issue := func(name string, serial int64) lab.Identity {
				i, err := ca.Issue(name, serial)
				w.Check(err)
				return i
			}
			pair := func(i lab.Identity) map[string][]byte { return map[string][]byte{"tls.crt": i.Chain, "tls.key": i.Key} }
			secretFolder(w, dir, "simple", pair(issue("simple.test", 11)))
			secretFolder(w, dir, "mutual", map[string][]byte{"ca.crt": issue("", 0).Roots})
			secretFolder(w, dir, "mutual", pair(issue("mutual.test", 12)))
			app := w.Backend("app")
			w.Service("app.test", app)
			bind := w.Address()
			w.Apply("Gateway gw", strings.ReplaceAll(`
				selector: {gateway: gw}
				servers:
				- {port: {number: 18443, name: simple, protocol: HTTPS}, bind: BIND, hosts: [simple.test], tls: {mode: SIMPLE, credentialName: simple}}
				- {port: {number: 18443, name: mutual, protocol: HTTPS}, bind: BIND, hosts: [mutual.test], tls: {mode: MUTUAL, credentialName: mutual}}
				- {port: {number: 18443, name: nobody, protocol: HTTPS}, bind: BIND, hosts: [late.test], tls: {mode: SIMPLE, credentialName: late}}
			`, "BIND", bind),
				"VirtualService app", "hosts: [simple.test, mutual.test, late.test]\ngateways: [gw]\nhttp: [{route: [{destination: {host: app.test}}]}]",
			)
			p := w.GatewayEnvoy("gw")
			presents := func(port int, host string, want int64) {
				t.Helper()
				w.Check(lab.Eventually(lab.StopLimit, func() error {
					return lab.Presents(fmt.Sprintf("%s:%d", bind, port), &tls.Config{RootCAs: ca.Pool(), ServerName: host}, want)
				}))
			}
			trusting := lab.ClientTo(bind+":18443", &tls.Config{RootCAs: ca.Pool()})
			w.Await(trusting, "https://simple.test/", lab.From("app"))
			presents(18443, "simple.test", 11)
			if _, err := lab.Exchange(trusting, http.MethodGet, "https://mutual.test/"); err == nil {
				t.Error("mutual TLS takes a client without a certificate")
			}
			w.Await(lab.ClientTo(bind+":18443", &tls.Config{
				RootCAs: ca.Pool(), Certificates: []tls.Certificate{keyPair(w, issue("client.test", 13))},
			}), "https://mutual.test/", lab.From("app"))

			secretFolder(w, dir, "simple", pair(issue("simple.test", 21))) // two files, one after the other: none is served in between
			presents(18443, "simple.test", 21)
			secretFolder(w, dir, "late", pair(issue("late.test", 31)))
			presents(18443, "late.test", 31)
			w.replay(p)
		})
	}
}

func keyPair(w *world, i lab.Identity) tls.Certificate {
	w.T.Helper()
	pair, err := tls.X509KeyPair(i.Chain, i.Key)
	w.Check(err)
	return pair
}
