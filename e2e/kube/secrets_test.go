//go:build kube

package kube

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// typed runs a block of docs/kubernetes.md in a directory.
func (w *world) typed(dir, commands string) {
	w.t.Helper()
	w.cluster.shell("cd '" + dir + "'\n" + commands)
}

// An authority that is made into the Secret cacerts, as the page has it, before discovery starts, is the mesh's.
func TestAuthorityOfOnesOwn(t *testing.T) { lab.InNetworkNamespace(t, ownAuthority) }

func ownAuthority(t *testing.T) {
	w := emptyWorld(t)
	dir := t.TempDir()
	w.typed(dir, "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca-key.pem -out ca-cert.pem -days 30 -subj /CN=own "+
		"-addext keyUsage=critical,keyCertSign,cRLSign 2>&1; cp ca-cert.pem root-cert.pem; cp ca-cert.pem cert-chain.pem")
	w.typed(dir, lab.Command(t, "docs/kubernetes.md", "generic cacerts"))
	before := w.cluster.output("kubectl -n " + system + " get secret cacerts -o jsonpath='{.data}'")
	w.hand.apply(strings.ReplaceAll(sharedRights, "namespace: default", "namespace: "+system))
	at := "127.0.0.1:" + port(t)
	w.serve("--ca", "--caSecret", system+"/cacerts", "--caDir", filepath.Join(dir, "none"), "--secureGRPCAddr", at, "--leaseNamespace", system)
	root, err := os.ReadFile(filepath.Join(dir, "root-cert.pem"))
	check(t, err)
	check(t, lab.Eventually(time.Minute, func() error {
		text := w.cluster.output("kubectl -n default get configmap istio-ca-root-cert -o jsonpath='{.data.root-cert\\.pem}' --ignore-not-found")
		if strings.TrimSpace(text) != strings.TrimSpace(string(root)) {
			return fmt.Errorf("the roots of default are %q", text)
		}
		return nil
	}))
	token := w.hand.tokenFor("shop", "web", "istio-ca", w.hand.account("shop", "web", "web-1"))
	check(t, lab.Eventually(time.Minute, func() error { // its own certificate is verified by that root
		if identity, code := newCertifier(t, at, dir).ask(token); identity != "spiffe://cluster.local/ns/shop/sa/web" {
			return fmt.Errorf("%q, %d", identity, code)
		}
		return nil
	}))
	if after := w.cluster.output("kubectl -n " + system + " get secret cacerts -o jsonpath='{.data}'"); after != before {
		t.Error("discovery has changed the Secret")
	}
}

// A further cluster is joined by the commands of the page, in a discovery that runs.
func TestAClusterJoinsByTheCommands(t *testing.T) { lab.InNetworkNamespace(t, clusterJoins) }

func clusterJoins(t *testing.T) {
	w := emptyWorld(t)
	east := w.another("east")
	east.hand().apply(rights)
	for name, h := range map[string]hand{"home": w.hand, "east": east.hand()} {
		h.apply(echo)
		remotePod(t, h, name, map[string]string{"home": "10.1.0.10", "east": "10.1.0.11"}[name])
	}
	w.hand.apply(namespaceOf(system) + "\n---\n" + allow(system, "clusters", may("list, watch", "", "secrets")))
	w.serve("--clusterRegistriesNamespace", system)
	number := lab.Port(t)
	w.proxy = fmt.Sprintf("127.0.0.1:%d", number)
	w.sidecar("client", "client", "10.1.0.1", number)
	w.answers("home")
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "east.kubeconfig"), fmt.Appendf(nil, `
{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
 clusters: [{name: c, cluster: {server: "https://%s", certificate-authority-data: %s}}], users: [{name: u, user: {token: tok-discovery}}]}
`, east.address, base64.StdEncoding.EncodeToString(east.ca)), 0o600))
	w.typed(dir, lab.Command(t, "docs/kubernetes.md", "generic east"))
	w.answers("home", "east")
}
