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
	"errors"
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

// ask returns the identity that a token has brought, or the status; 0 where there is no answer, since a replica may be ready before it has the
// authority.
func (c certifier) ask(token string) (identity string, code int) {
	c.t.Helper()
	read, code := c.whole(token)
	return read.Identity, code
}

// certified is an answer of an authority.
type certified struct {
	Identity, Chain, Roots string

	failed error // why there is no answer
}

// by returns the key identifier of the issuer of the leaf.
func (c certified) by(t testing.TB) string {
	t.Helper()
	block, _ := pem.Decode([]byte(c.Chain))
	if block == nil {
		t.Fatalf("the chain is %q", c.Chain)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	check(t, err)
	return string(leaf.AuthorityKeyId)
}

func (c certifier) whole(token string) (read certified, code int) {
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
	if untrusted := new(tls.CertificateVerificationError); err != nil && !errors.As(err, &untrusted) {
		return certified{failed: err}, 0
	}
	check(c.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	check(c.t, err)
	check(c.t, json.Unmarshal(answer, &read))
	if response.StatusCode != http.StatusOK && strings.Contains(string(answer), "token") {
		c.t.Errorf("a caller who is refused reads %s", answer)
	}
	return read, response.StatusCode
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

// sharedRights are what an authority in a Secret needs beside them.
var sharedRights = allow("", "roots", may("list, watch, create, update", "", "configmaps"), may("create", "authentication.k8s.io", "tokenreviews")) + "\n---\n" +
	allow("default", "cacerts", may("list, watch, create, update", "", "secrets")) + "\n---\n" + leases("default")

// Replicas share the authority that one of them has made, and the leader writes its roots into each namespace, again where they were
// changed. A lost Secret brings no second root.
func TestSharedAuthority(t *testing.T) { lab.InNetworkNamespace(t, sharedAuthority) }

func sharedAuthority(t *testing.T) {
	w := emptyWorld(t)
	w.hand.apply(sharedRights)
	web := w.hand.account("shop", "web", "web-1")
	token := w.hand.tokenFor("shop", "web", "istio-ca", web)
	dir := t.TempDir()
	one, two := "127.0.0.1:"+port(t), "127.0.0.1:"+port(t)
	start := func(at string) *lab.Discovery {
		t.Helper()
		return w.replica(lab.New(t.TempDir()), "--ca", "--caSecret", "default/cacerts", "--caDir", filepath.Join(dir, "none"), "--secureGRPCAddr", at, "--leaseNamespace", "default",
			"--registrySyncTimeout", "3s")
	}
	first := start(one)
	second := start(two)
	rootsIn := func(namespace string) string {
		o := w.hand.parse("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio-ca-root-cert, namespace: " + namespace + "}")
		found, err := w.hand.resource(o).Get(t.Context(), o.GetName(), metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		text, _, _ := unstructured.NestedString(found.Object, "data", "root-cert.pem")
		return text
	}
	var roots string
	everywhere := func() {
		t.Helper()
		check(t, lab.Eventually(time.Minute, func() error {
			for _, namespace := range []string{"default", "shop", "late"} {
				text := rootsIn(namespace)
				if roots == "" && strings.HasPrefix(text, "-----BEGIN CERTIFICATE") {
					roots = text
				}
				if roots == "" || text != roots {
					return fmt.Errorf("in %s are %s", namespace, text)
				}
			}
			return nil
		}))
	}
	w.hand.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: late}")
	everywhere()
	check(t, os.WriteFile(filepath.Join(dir, "root-cert.pem"), []byte(roots), 0o600))
	for _, at := range []string{one, two} { // both sign by the same root: it verifies their own certificates
		check(t, lab.Eventually(time.Minute, func() error {
			if identity, code := newCertifier(t, at, dir).ask(token); identity != "spiffe://cluster.local/ns/shop/sa/web" {
				return fmt.Errorf("%q, %d", identity, code)
			}
			return nil
		}))
	}

	// Changed and deleted roots are written again.
	w.cluster.shell(`kubectl -n shop patch configmap istio-ca-root-cert --type merge -p '{"data": {"root-cert.pem": "none"}}'; kubectl -n late delete configmap istio-ca-root-cert`)
	everywhere()

	// A Secret that is lost is named, and not made anew; the replicas that know it go on.
	text := w.cluster.output("kubectl -n default get secret cacerts -o json")
	w.cluster.shell("kubectl -n default delete secret cacerts")
	for _, d := range []*lab.Discovery{first, second} {
		check(t, lab.Eventually(time.Minute, func() error {
			page, err := lab.Get("http://" + d.HTTP + "/ready?verbose")
			if err == nil && !strings.Contains(page, "Secret default/cacerts: was deleted") {
				err = fmt.Errorf("it says %s", page)
			}
			return err
		}))
	}
	if identity, code := newCertifier(t, one, dir).ask(token); identity == "" {
		t.Errorf("after the Secret was deleted: %d", code)
	}
	three := "127.0.0.1:" + port(t)
	third := start(three)
	const never = "a second root is never made"
	logged(t, third, never)
	check(t, lab.Eventually(time.Minute, func() error {
		page, err := lab.Get("http://" + third.HTTP + "/ready?verbose")
		if err == nil && !strings.Contains(page, never) {
			err = fmt.Errorf("the third replica says %s", page)
		}
		return err
	}))
	back := filepath.Join(dir, "back.json")
	check(t, os.WriteFile(back, []byte(text), 0o600))
	w.cluster.shell("sed -e /resourceVersion/d -e /uid/d " + back + " | kubectl create -f -")
	check(t, lab.Eventually(time.Minute, func() error {
		if page, err := lab.Get("http://" + third.HTTP + "/ready?verbose"); err != nil || strings.Contains(page, "cacerts") {
			return fmt.Errorf("it says %s: %w", page, err)
		}
		if identity, code := newCertifier(t, three, dir).ask(token); identity == "" {
			return fmt.Errorf("status %d", code)
		}
		return nil
	}))
	for _, d := range []*lab.Discovery{first, second, third} {
		if strings.Contains(d.Log(), "PRIVATE") {
			t.Error("a key is in a log")
		}
	}
}

// output is shell, and returns what the commands print.
func (c *cluster) output(commands string) string {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "out")
	c.shell("{ " + commands + "; } > " + path)
	text, err := os.ReadFile(path)
	check(c.t, err)
	return string(text)
}

// certified shows that a Pod's token brings a certificate of the mesh, whose roots each namespace has, again where they are changed.
func (w *world) certified(at string) {
	w.t.Helper()
	web := w.hand.account("shop", "web", "web-1")
	w.cluster.shell(`kubectl -n shop delete configmap istio-ca-root-cert --ignore-not-found; kubectl -n bookinfo patch configmap istio-ca-root-cert --type merge -p '{"data": {"root-cert.pem": "none"}}'`)
	dir := w.t.TempDir()
	check(w.t, lab.Eventually(time.Minute, func() error {
		var all []string
		for _, namespace := range []string{"shop", "bookinfo", system} {
			text := w.cluster.output("kubectl -n " + namespace + " get configmap istio-ca-root-cert -o jsonpath='{.data.root-cert\\.pem}' --ignore-not-found")
			if !strings.HasPrefix(text, "-----BEGIN CERTIFICATE") || len(all) > 0 && text != all[0] {
				return fmt.Errorf("in %s are %q", namespace, text)
			}
			all = append(all, text)
		}
		return os.WriteFile(filepath.Join(dir, "root-cert.pem"), []byte(all[0]), 0o600)
	}))
	if identity, code := newCertifier(w.t, at, dir).ask(w.hand.tokenFor("shop", "web", "istio-ca", web)); identity != "spiffe://cluster.local/ns/shop/sa/web" {
		w.t.Errorf("the token of a Pod brings %q, %d", identity, code)
	}
	commands := shared{w.cluster, system + "/cacerts"}
	joins := commands.run("token", "create", "--namespace", "shop", "--service-account", "vm", "--once")
	if identity, code := newCertifier(w.t, at, dir).ask(joins); identity != "spiffe://cluster.local/ns/shop/sa/vm" {
		w.t.Errorf("a join token brings %q, %d", identity, code)
	}
	if out := commands.run("ca", "rotate"); !strings.Contains(out, ", begun: ") {
		w.t.Errorf("rotate says %q", out)
	}
	check(w.t, lab.Eventually(time.Minute, func() error { // which needs the right to change the Secret
		if out := commands.run("ca", "rotate"); !strings.Contains(out, ", trust: ") {
			return errors.New(out)
		}
		return nil
	}))
	commands.run("ca", "rotate", "--abort")
}
