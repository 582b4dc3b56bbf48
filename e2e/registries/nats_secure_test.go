//go:build registries

package registries

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// secureBroker starts NATS as a Cloud Foundry runs it: mutual TLS, and further settings.
func (w *world) secureBroker(identity string, settings string) *broker {
	w.T.Helper()
	port, monitoring := w.port(), w.port()
	file := filepath.Join(w.Dir, "nats.conf")
	w.check(os.WriteFile(file, fmt.Appendf(nil, `
listen: "127.0.0.1:%d"
http: "127.0.0.1:%d"
tls { cert_file: "%[3]s/%[4]s.pem", key_file: "%[3]s/%[4]s.key", ca_file: "%[3]s/ca.pem", verify: true, timeout: 5 }
%[5]s
`, port, monitoring, w.Dir, identity, settings), 0o600))
	b := &broker{url: "tls://" + local(port), credentials: filepath.Join(w.Dir, "nats-credentials")}
	b.part = w.part(lab.Spec{Name: "nats", Argv: []string{needs(w.T, "nats-server"), "-c", file}}, func() error {
		_, err := lab.Get("http://" + local(monitoring) + "/healthz")
		return err
	})
	return b
}

// issue writes NAME.pem, NAME.key and ca.pem into the world's directory.
func (w *world) issue(authority *lab.Authority, name string, serial int64) {
	w.T.Helper()
	identity, err := authority.IssueWith(name+".test", serial, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} })
	w.check(err)
	w.check(identity.Write(w.Dir, name))
}

// NATS by mutual TLS, with a password: what does not fit is said in words, and what is mended in the files is taken without a restart of
// discovery. The broker is killed and comes back, and no request fails.
func TestCloudFoundryOverTLS(t *testing.T) {
	w := newWorld(t)
	authority, err := lab.NewAuthority("cf")
	w.check(err)
	stranger, err := lab.NewAuthority("stranger")
	w.check(err)
	w.issue(authority, "broker", 2)
	w.issue(authority, "cell", 3)
	b := w.secureBroker("broker", `authorization { user: router, password: secret }`)
	path := func(name string) string { return filepath.Join(w.Dir, name) }
	c := w.cellsAt(b.url, nats.UserInfo("router", "secret"), nats.RootCAs(path("ca.pem")), nats.ClientCert(path("cell.pem"), path("cell.key")))
	one, two := w.backend("one", 11, w.port()), w.backend("two", 12, w.port())
	w.check(c.register("one", body("shop.cf.test", "one", one.ip, one.port, nil)))

	roots := func(a *lab.Authority) { w.check(os.WriteFile(path("roots.pem"), a.PEM(), 0o600)) }
	client := func(a *lab.Authority) {
		identity, err := a.Issue("discovery.test", 4)
		w.check(err)
		w.check(os.WriteFile(path("client.pem"), identity.Chain, 0o600))
		w.check(os.WriteFile(path("client.key"), identity.Key, 0o600))
	}
	password := func(text string) { w.check(os.WriteFile(b.credentials, []byte(text+"\n"), 0o600)) }
	roots(stranger)
	client(stranger)
	password("router:wrong")
	w.configDir = path("config") // discovery is ready with it
	w.check(os.Mkdir(w.configDir, 0o755))
	ready := func() string { return w.get("/ready?verbose") }
	w.serve(append([]string{
		"--registries", "CloudFoundry", "--registrySyncTimeout", "100ms", "--optionalSources", "CloudFoundry", "--natsCACertFile", path("roots.pem"),
		"--natsClientCertFile", path("client.pem"), "--natsClientKeyFile", path("client.key"),
	}, b.flags()...)...)
	w.eventually("certificate signed by unknown authority", ready)
	roots(authority)
	w.eventually("certificate required", ready)
	client(authority)
	w.eventually("Authorization Violation", ready)
	password("router:secret")
	w.sidecar("--serviceregistry", "CloudFoundry")
	const url = "http://shop.cf.test/"
	w.answers(url, "one")

	w.settled()
	load := w.load(url)
	b.kill()
	w.eventually("source CloudFoundry: it failed at", ready)
	client(stranger) // a certificate that is read when the broker is back
	w.thousand(load) // while it is away
	b.restart()
	w.eventually("certificate required", ready)
	w.answers(url, "one")
	client(authority)
	w.settled()
	w.check(c.register("two", body("shop.cf.test", "two", two.ip, two.port, nil)))
	w.answers(url, "one", "two")
	w.thousand(load)
	w.Unharmed(load)
}

// token is a JWT as NATS' operators issue it.
func (w *world) token(issuer nkeys.KeyPair, kind string, subject nkeys.KeyPair, further map[string]any) string {
	w.T.Helper()
	of := func(k nkeys.KeyPair) string {
		name, err := k.PublicKey()
		w.check(err)
		return name
	}
	claims := map[string]any{"type": kind, "version": 2}
	for key, value := range further {
		claims[key] = value
	}
	part := func(v any) string {
		data, err := json.Marshal(v)
		w.check(err)
		return base64.RawURLEncoding.EncodeToString(data)
	}
	text := part(map[string]string{"typ": "JWT", "alg": "ed25519-nkey"}) + "." +
		part(map[string]any{"jti": kind, "iat": time.Now().Unix(), "iss": of(issuer), "sub": of(subject), "name": kind, "nats": claims})
	signature, err := issuer.Sign([]byte(text))
	w.check(err)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// A broker whose users have JWTs: the file holds the user's token and seed.
func TestCloudFoundryWithUserToken(t *testing.T) {
	w := newWorld(t)
	authority, err := lab.NewAuthority("cf")
	w.check(err)
	w.issue(authority, "broker", 2)
	w.issue(authority, "cell", 3)
	operator, err := nkeys.CreateOperator()
	w.check(err)
	account, err := nkeys.CreateAccount()
	w.check(err)
	user, err := nkeys.CreateUser()
	w.check(err)
	name, err := account.PublicKey()
	w.check(err)
	seed, err := user.Seed()
	w.check(err)
	limits := map[string]any{"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1}
	b := w.secureBroker("broker", fmt.Sprintf("operator: %s\nresolver: MEMORY\nresolver_preload: { %s: %s }\n", w.token(operator, "operator", operator, nil),
		name, w.token(operator, "account", account, map[string]any{"limits": limits})))
	w.check(os.WriteFile(b.credentials, fmt.Appendf(nil, "-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n",
		w.token(account, "user", user, map[string]any{"subs": -1, "data": -1, "payload": -1}), seed), 0o600))
	path := func(name string) string { return filepath.Join(w.Dir, name) }
	c := w.cellsAt(b.url, nats.UserCredentials(b.credentials), nats.RootCAs(path("ca.pem")), nats.ClientCert(path("cell.pem"), path("cell.key")))
	w.check(c.register("one", body("shop.cf.test", "one", "127.0.0.1", 1, nil)))
	w.serve(append([]string{
		"--registries", "CloudFoundry", "--natsCACertFile", path("ca.pem"), "--natsClientCertFile", path("cell.pem"), "--natsClientKeyFile", path("cell.key"),
	}, b.flags()...)...)
	w.eventually("shop.cf.test", func() string { return w.get("/debug/registryz") })
}
