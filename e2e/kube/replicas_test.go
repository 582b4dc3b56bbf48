//go:build kube

package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// replica starts a discovery that follows the cluster, with further flags.
func (c *cluster) replica(flags ...string) *lab.Discovery {
	c.t.Helper()
	l := lab.New(c.t.TempDir())
	files := filepath.Join(l.Dir, "none")
	check(c.t, os.Mkdir(files, 0o755))
	d, err := l.Discovery(files, append([]string{
		"--registries", "Kubernetes", "--kubernetesConfig", "--kubeconfig", c.kubeconfig("admin"), "--kubeContext", "test",
	}, flags...)...)
	check(c.t, err)
	c.t.Cleanup(func() {
		d.Stop(stopLimit)
		if c.t.Failed() {
			c.t.Logf("discovery:\n%s", tail(d.Log()))
		}
	})
	return d
}

// Two replicas of discovery stand behind one address. The age of connections spreads 500 proxies over both, and when one is
// killed, its proxies go to the other. Versions are equal on both, so that a proxy which connects again is sent less than a
// hundredth of its configuration: in both variants of the protocol.
func TestReplicas(t *testing.T) {
	t.Parallel() // it waits for connections to age
	const services, endpoints, proxies = 200, 5, 500
	c := startCluster(t)
	hand := c.hand()
	hand.apply(istioDefinitions(t))
	hand.fill("shop", services, endpoints, false)
	for generation, name := range []string{"state of the world", "delta"} {
		delta := name == "delta"
		t.Run(name, func(t *testing.T) {
			c := *c
			c.t = t
			age := []string{"--keepaliveMaxServerConnectionAge", "5s", "--maxNewStreamsPerSecond", "0"}
			one := c.replica(age...)
			front := startRelay(t, one.GRPC)
			f := startFleet(t, lab.New("").Bin, front.listener.Addr().String(), proxies, delta)
			f.ask("await", routes, "120s")
			full := f.ask("report", routes)
			if full.Proxies != proxies {
				t.Fatalf("%d of %d proxies are configured", full.Proxies, proxies)
			}
			f.ask("mark")

			two := c.replica(age...)
			front.add(two.GRPC)
			check(t, lab.Eventually(2*time.Minute, func() error { return spread(proxies, one, two) }))
			spreading := f.ask("report", routes)
			f.ask("mark")

			moving, err := connected(one)
			check(t, err)
			one.Signal(syscall.SIGKILL)
			check(t, lab.Eventually(2*time.Minute, func() error {
				n, err := connected(two)
				if err == nil && n < proxies {
					err = fmt.Errorf("%d proxies are at the replica that is left, want %d", n, proxies)
				}
				return err
			}))
			lost := f.ask("report", routes)
			share := float64(lost.Bytes) / (float64(full.Bytes) * float64(moving) / proxies)
			t.Logf("%d proxies: configured with %d bytes; %d bytes again while age spread them; %d bytes when a replica with %d of them was killed, %.3f %% of theirs",
				proxies, full.Bytes, spreading.Bytes, lost.Bytes, moving, 100*share)
			if share >= 0.01 {
				t.Errorf("%.1f %% of the configuration is sent again after the loss of a replica, want less than 1 %%", 100*share)
			}
			if spreading.Bytes*100 >= full.Bytes {
				t.Errorf("%d of %d bytes are sent again where connections age, want less than 1 %%", spreading.Bytes, full.Bytes)
			}

			// Changes after that are sent, and nothing else.
			f.ask("mark")
			for _, document := range made("shop", 7, endpoints, generation+1, false) {
				hand.apply(document)
			}
			if after := f.ask("await", assignments, "60s"); after.Proxies != proxies || after.Bytes*50 >= full.Bytes {
				t.Errorf("a change goes to %d proxies, in %d bytes; want %d, and less than 2 %% of %d", after.Proxies, after.Bytes, proxies, full.Bytes)
			}
		})
	}
}

// spread reports whether each replica has a third of the proxies or more, and both have all.
func spread(proxies int, replicas ...*lab.Discovery) error {
	all := 0
	for _, d := range replicas {
		n, err := connected(d)
		if err != nil {
			return err
		}
		if all += n; n < proxies/3 {
			return fmt.Errorf("a replica has %d of %d proxies, want a third", n, proxies)
		}
	}
	if all < proxies {
		return fmt.Errorf("%d of %d proxies are connected", all, proxies)
	}
	return nil
}
