//go:build kube

package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// cluster is etcd and an API server on loopback.
type cluster struct {
	t       testing.TB
	dir     string
	address string // host:port of the API server
	ca      []byte
	etcd    *lab.Process
	store   lab.Spec // of etcd
	storage string   // URL of etcd
	server  *lab.Process
	spec    lab.Spec // of the API server
}

// startCluster starts both, until the test ends, with further flags of the API server.
func startCluster(t testing.TB, flags ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), storage: "http://127.0.0.1:" + port(t)}
	c.store = lab.Spec{Name: "etcd", Dir: c.dir, Argv: []string{
		part("etcd"), "--name", "t", "--data-dir", filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", c.storage, "--advertise-client-urls", c.storage,
		"--listen-peer-urls", "http://127.0.0.1:0", "--initial-advertise-peer-urls", "http://127.0.0.1:0",
	}}
	c.startStore()
	t.Cleanup(func() { c.etcd.Stop(stopLimit) })
	c.serve(ownPrefix, flags...)
	return c
}

// ownPrefix is where a cluster has its objects in etcd.
const ownPrefix = "/registry"

// startStore starts etcd, again.
func (c *cluster) startStore() {
	c.t.Helper()
	var err error
	c.etcd, err = lab.Start(c.store)
	check(c.t, err)
}

// another is an API server of another cluster, which has its objects under a prefix in the same etcd.
func (c *cluster) another(prefix string) *cluster {
	c.t.Helper()
	return c.onPrefix("/" + prefix)
}

// beside is another API server of the same cluster.
func (c *cluster) beside() *cluster {
	c.t.Helper()
	return c.onPrefix(ownPrefix)
}

func (c *cluster) onPrefix(prefix string) *cluster {
	c.t.Helper()
	o := &cluster{t: c.t, dir: c.t.TempDir(), storage: c.storage}
	o.serve(prefix)
	return o
}

// serve starts the API server, until the test ends.
func (c *cluster) serve(prefix string, flags ...string) {
	t := c.t
	t.Helper()
	c.address = "127.0.0.1:" + port(t)
	c.credentials()
	in := func(name string) string { return filepath.Join(c.dir, name) }
	_, own, err := net.SplitHostPort(c.address)
	check(t, err)
	c.spec = lab.Spec{Name: "kube-apiserver", Dir: c.dir, Argv: []string{
		part("kube-apiserver"), "--etcd-servers=" + c.storage, "--etcd-prefix=" + prefix, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		"--secure-port=" + own, "--cert-dir=" + c.dir, "--tls-cert-file=" + in("server.pem"), "--tls-private-key-file=" + in("server.key"),
		"--client-ca-file=" + in("ca.pem"), "--token-auth-file=" + in("tokens.csv"),
		"--service-account-issuer=https://" + c.address, "--service-account-key-file=" + in("sa.key"),
		"--service-account-signing-key-file=" + in("sa.key"), "--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/16",
		"--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount", "--enable-priority-and-fairness=false",
	}}
	c.spec.Argv = append(c.spec.Argv, flags...)
	c.start()
	t.Cleanup(func() { // before etcd: it hangs on to one that is gone
		if c.stop(); t.Failed() {
			t.Logf("kube-apiserver:\n%s", tail(c.server.Log()))
		}
	})
}

// start starts the API server, again, on the same port, and waits until it is ready.
func (c *cluster) start() {
	c.t.Helper()
	var err error
	c.server, err = lab.Start(c.spec)
	check(c.t, err)
	transport, err := rest.TransportFor(c.config("admin"))
	check(c.t, err)
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	check(c.t, lab.Eventually(time.Minute, func() error {
		answer, err := client.Get("https://" + c.address + "/readyz")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("the API server is not ready: %s\n%s", answer.Status, tail(c.server.Log()))
		}
		return nil
	}))
}

// stop ends the API server.
func (c *cluster) stop() { c.server.Stop(stopLimit) }

// credentials writes what both sides prove themselves with.
func (c *cluster) credentials() {
	c.t.Helper()
	authority, err := lab.NewAuthority("cluster")
	check(c.t, err)
	identity, err := authority.IssueWith("kubernetes", 1, func(x *x509.Certificate) { x.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} })
	check(c.t, err)
	check(c.t, identity.Write(c.dir, "server"))
	c.ca = authority.PEM()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(c.t, err)
	der, err := x509.MarshalECPrivateKey(key)
	check(c.t, err)
	c.write("sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
	c.write("tokens.csv", "tok-admin,admin,1,system:masters\ntok-discovery,discovery,2\ntok-stranger,stranger,3\n")
}

func (c *cluster) write(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	check(c.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// config is how a user reaches the API server.
func (c *cluster) config(user string) *rest.Config {
	return &rest.Config{Host: "https://" + c.address, BearerToken: "tok-" + user, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: c.ca}}
}

// kubeconfig is the same as a file, whose current context leads nowhere.
func (c *cluster) kubeconfig(user string) string { return c.kubeconfigOf(user, "other") }

func (c *cluster) kubeconfigOf(user, current string) string {
	return c.write("kubeconfig-"+user+"-"+current, fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://%s", certificate-authority: %s}}]
users: [{name: u, user: {token: tok-%s}}]
contexts: [{name: test, context: {cluster: c, user: u}}, {name: other, context: {cluster: gone, user: u}}]
current-context: %s
`, c.address, filepath.Join(c.dir, "ca.pem"), user, current))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func port(t testing.TB) string {
	t.Helper()
	n, err := lab.FreePort()
	check(t, err)
	return fmt.Sprint(n)
}

// tail keeps the end of a log.
func tail(log string) string {
	const most = 4_000
	return log[max(0, len(log)-most):]
}
