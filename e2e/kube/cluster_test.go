//go:build kube

package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// cluster is etcd and an API server on loopback.
type cluster struct {
	t testing.TB
	*lab.APIServer
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
	c.store = lab.Etcd(c.dir, c.storage)
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
	n, err := lab.FreePort()
	check(t, err)
	c.APIServer, err = lab.NewAPIServer(c.dir, n)
	check(t, err)
	c.address, c.ca = c.Address, c.CA
	c.spec = c.Spec(c.storage, prefix, flags...)
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
	check(c.t, lab.Eventually(time.Minute, func() error {
		if err := c.Ready(); err != nil {
			return fmt.Errorf("the API server is not ready: %w\n%s", err, tail(c.server.Log()))
		}
		return nil
	}))
}

// stop ends the API server.
func (c *cluster) stop() { c.server.Stop(stopLimit) }

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
	c.t.Helper()
	path, err := c.Kubeconfig(user, current)
	check(c.t, err)
	return path
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
