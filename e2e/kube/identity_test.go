//go:build kube

package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// certifier asks an authority for certificates with tokens.
type certifier struct {
	t   testing.TB
	at  string // host:port
	dir string // with root-cert.pem
	csr string
}

func newCertifier(t testing.TB, at, dir string) certifier {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	check(t, err)
	return certifier{t, at, dir, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))}
}

// ask returns the identity that a token has brought, or the status.
func (c certifier) ask(token string) (identity string, code int) {
	c.t.Helper()
	roots := x509.NewCertPool()
	text, err := os.ReadFile(filepath.Join(c.dir, "root-cert.pem"))
	check(c.t, err)
	roots.AppendCertsFromPEM(text)
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}, DisableKeepAlives: true,
	}}
	body, err := json.Marshal(map[string]string{"csr": c.csr})
	check(c.t, err)
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, "https://"+c.at+"/v1/certificates", strings.NewReader(string(body)))
	check(c.t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	check(c.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	check(c.t, err)
	var read struct{ Identity string }
	check(c.t, json.Unmarshal(answer, &read))
	if response.StatusCode != http.StatusOK && strings.Contains(string(answer), "token") {
		c.t.Errorf("a caller who is refused reads %s", answer)
	}
	return read.Identity, response.StatusCode
}

// tokenFor is a token of a service account: for these audiences, bound to a Pod unless that is nil.
func (h hand) tokenFor(namespace, account, audiences string, pod *unstructured.Unstructured) string {
	h.t.Helper()
	bound := ""
	if pod != nil {
		bound = fmt.Sprintf(", boundObjectRef: {kind: Pod, apiVersion: v1, name: %s, uid: %s}", pod.GetName(), pod.GetUID())
	}
	request := h.parse("apiVersion: authentication.k8s.io/v1\nkind: TokenRequest\nmetadata: {name: " + account + "}\nspec: {audiences: [" + audiences + "]" + bound + "}")
	o := h.parse("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: " + account + ", namespace: " + namespace + "}")
	answer, err := h.resource(o).Create(h.t.Context(), request, metav1.CreateOptions{}, "token")
	check(h.t, err)
	token, _, err := unstructured.NestedString(answer.Object, "status", "token")
	check(h.t, err)
	return token
}

// account makes a service account and a Pod of it.
func (h hand) account(namespace, account, pod string) *unstructured.Unstructured {
	h.t.Helper()
	h.apply(fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: %[2]s, namespace: %[1]s}`, namespace, account))
	o := h.parse(fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: %s}\nspec: {serviceAccountName: %s, nodeName: n1, containers: [{name: app, image: none}]}", pod, namespace, account))
	made, err := h.resource(o).Create(h.t.Context(), o, metav1.CreateOptions{})
	check(h.t, err)
	return made
}

var reviewRights = allow("", "reviews", may("create", "authentication.k8s.io", "tokenreviews"))

// A token of a service account brings its identity if it is for istio-ca and bound to a Pod that is there; the API server decides.
func TestServiceAccountTokens(t *testing.T) { lab.InNetworkNamespace(t, serviceAccountTokens) }

func serviceAccountTokens(t *testing.T) {
	w := emptyWorld(t)
	authority, secure := filepath.Join(t.TempDir(), "ca"), "127.0.0.1:"+port(t)
	w.serve("--ca", "--caDir", authority, "--secureGRPCAddr", secure)
	web := w.hand.account("shop", "web", "web-1")
	other := w.hand.account("bank", "teller", "teller-1")
	c := newCertifier(t, secure, authority)
	good := w.hand.tokenFor("shop", "web", "istio-ca", web)

	if identity, code := c.ask(good); code != http.StatusServiceUnavailable {
		t.Errorf("without the right to ask for reviews: %s, %d; want that it shall come again", identity, code)
	}
	w.hand.apply(reviewRights)
	check(t, lab.Eventually(30*time.Second, func() error {
		if identity, code := c.ask(good); identity != "spiffe://cluster.local/ns/shop/sa/web" {
			return fmt.Errorf("%q, %d", identity, code)
		}
		return nil
	}))
	if identity, code := c.ask(w.hand.tokenFor("bank", "teller", "vault, istio-ca", other)); identity != "spiffe://cluster.local/ns/bank/sa/teller" {
		t.Errorf("another account: %q, %d", identity, code)
	}

	parts := strings.Split(good, ".")
	foreign := strings.Split(w.hand.tokenFor("bank", "teller", "istio-ca", other), ".")
	for name, token := range map[string]string{
		"another audience":            w.hand.tokenFor("shop", "web", "vault", web),
		"the API server's audience":   w.hand.token("shop", "web"),
		"not bound to a Pod":          w.hand.tokenFor("shop", "web", "istio-ca", nil),
		"claims of another one":       parts[0] + "." + foreign[1] + "." + parts[2],
		"a signature that is cut off": good[:len(good)-8],
		"a user's, of tokens.csv":     "tok-admin",
		"none":                        "",
	} {
		if identity, code := c.ask(token); code != http.StatusUnauthorized || identity != "" {
			t.Errorf("%s: %q, %d; want 401", name, identity, code)
		}
	}
	check(t, w.hand.resource(web).Delete(t.Context(), web.GetName(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	check(t, lab.Eventually(30*time.Second, func() error { // the API server keeps what it has found of a token for ten seconds
		if identity, code := c.ask(good); code != http.StatusUnauthorized {
			return fmt.Errorf("with a Pod that is gone: %q, %d", identity, code)
		}
		return nil
	}))
	w.stop()
	if identity, code := c.ask(strings.Join(foreign, ".")); code != http.StatusServiceUnavailable {
		t.Errorf("without an API server: %q, %d; want that it shall come again", identity, code)
	}
	w.start()
	log := w.discovery.Log()
	for _, want := range []string{"want \\\"istio-ca\\\"", "not bound to a Pod"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not say %s:\n%s", want, tail(log))
		}
	}
	if strings.Contains(log, good) || strings.Contains(log, parts[2]) {
		t.Error("a token is in the log")
	}
}
