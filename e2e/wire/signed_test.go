//go:build wire

package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Istio's agent, unmodified, gets its workload's certificate from discovery's authority by CreateCertificate, and renews it, and no request fails. In a Pod
// it shows a token of an issuer for that and for its stream, as Istio's agent does with the Pod's own. On a machine it shows a join token once, and then
// its certificate, the join token being revoked.
func TestPilotAgentWithOurAuthority(t *testing.T) {
	for name, enrol := range map[string]func(w *world, dir string) *pilotAgent{"pod": (*world).pilotAgentOfAPod, "machine": (*world).pilotAgentOfAMachine} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits for renewals most of the time
			testPilotAgentWithOurAuthority(t, enrol)
		})
	}
}

func testPilotAgentWithOurAuthority(t *testing.T, enrol func(w *world, dir string) *pilotAgent) {
	w := newWorld(t)
	authority, err := lab.NewAuthority("mesh")
	w.check(err)
	one := w.backend("one")
	w.write("echo.yaml", entry("echo", "240.1.2.3", one))
	w.write("secure.yaml", entry("secure", "240.1.2.4", w.mutual(authority, "secure.test"))+ofTheMesh)
	dir := filepath.Join(w.Dir, "ca")
	w.check(os.Mkdir(dir, 0o700))
	w.check(authority.Plug(dir))

	a := enrol(w, dir)
	w.check(a.AwaitHTTP(30*time.Second, "http://"+a.status+"/healthz/ready"))
	first := w.presents(a, "")
	w.revokeAll(dir)
	load := w.load(a.http, "http://echo.test/", "one")
	w.presents(a, w.presents(a, first))
	w.write("echo.yaml", entry("echo", "240.1.2.3", w.backend("two")))
	w.answers(a.http, "http://echo.test/", "two")
	w.Unharmed(load)
}

// signing starts discovery with an authority that is plugged in. Istio's agent renews a certificate at its half.
func (w *world) signing(dir string, flags ...string) {
	w.T.Helper()
	w.secure = fmt.Sprintf("127.0.0.1:%d", lab.Port(w.T))
	w.serve(append(flags, "--ca", "--caDir", dir, "--secureGRPCAddr", w.secure, "--caTTL", "20s", "--caMaxTTL", "20s")...)
}

// pilotAgentOfAPod starts Istio's agent with a token of an issuer.
func (w *world) pilotAgentOfAPod(dir string) *pilotAgent {
	w.T.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.check(err)
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), Use: "sig"}}})
	w.check(err)
	w.check(os.WriteFile(filepath.Join(w.Dir, "keys.json"), keys, 0o600))
	issuers := filepath.Join(w.Dir, "issuers.yaml")
	w.check(os.WriteFile(issuers, []byte("issuers:\n- issuer: https://issuer.test\n  jwksFile: keys.json\n  identities:\n  - claims: {sub: \"system:serviceaccount:{namespace}:{serviceAccount}\"}\n"), 0o600))
	w.signing(dir, "--caIssuers", issuers)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	w.check(err)
	token, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: "https://issuer.test", Subject: "system:serviceaccount:default:default", Audience: jwt.Audience{"istio-ca"}, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour)),
	}).Serialize()
	w.check(err)
	return w.pilotAgentThatEnrols(dir, token)
}

// pilotAgentOfAMachine starts Istio's agent with a join token. It keeps what it gets in files, and shows them.
func (w *world) pilotAgentOfAMachine(dir string) *pilotAgent {
	w.T.Helper()
	w.signing(dir)
	token, err := w.tokens(dir, "create", "--namespace", "default", "--service-account", "default")
	w.check(err)
	certs := filepath.Join(w.Dir, "istio", "certs")
	w.check(os.MkdirAll(certs, 0o755))
	return w.pilotAgentThatEnrols(dir, token, "PROV_CERT="+certs, "OUTPUT_CERTS="+certs)
}

// pilotAgentThatEnrols starts Istio's agent without a certificate. It finds all at the secure port.
func (w *world) pilotAgentThatEnrols(dir, token string, env ...string) *pilotAgent {
	w.T.Helper()
	tokens := filepath.Join(w.Dir, "istio", "var/run/secrets/tokens")
	w.check(os.MkdirAll(tokens, 0o755))
	w.check(os.WriteFile(filepath.Join(tokens, "istio-token"), []byte(token), 0o600))
	roots := filepath.Join(dir, "root-cert.pem")
	env = append(env, "CA_ADDR="+w.secure, "CA_ROOT_CA="+roots, "XDS_ROOT_CA="+roots, "ISTIO_DELTA_XDS=true")
	return w.pilotAgentOf("istio", w.Addresses+"1", w.secure, "MUTUAL_TLS", lab.Identity{}, env...)
}

// presents waits until the agent's Envoy presents a certificate of its account to a server, another one than before.
func (w *world) presents(a *pilotAgent, before string) (now string) {
	w.T.Helper()
	w.check(lab.Eventually(time.Minute, func() (err error) {
		now, err = lab.GetThrough(a.http, "http://secure.test/")
		if err == nil && (!strings.HasPrefix(now, spiffe+" ") || now == before) {
			err = fmt.Errorf("the server saw %q, want another one of %s than %q", now, spiffe, before)
		}
		return err
	}))
	return now
}

// tokens runs a command about join tokens, and returns what it prints.
func (w *world) tokens(dir string, command ...string) (string, error) {
	out, err := exec.Command(filepath.Join(w.Bin, "discovery"), append(append([]string{"token"}, command...), "--caDir", dir)...).Output()
	return strings.TrimSpace(string(out)), err
}

// revokeAll revokes each join token.
func (w *world) revokeAll(dir string) {
	w.T.Helper()
	listed, err := w.tokens(dir, "list")
	w.check(err)
	for _, line := range strings.Split(listed, "\n")[1:] {
		_, err := w.tokens(dir, "revoke", strings.Fields(line)[0])
		w.check(err)
	}
}
