//go:build wire

package wire

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// How long gRPC may take to see a service again that was away.
const backLimit = 5 * time.Second

const (
	echoTarget     = "xds:///echo:50051" // a short name
	splitTarget    = "xds:///split.default.svc.cluster.local:50051"
	dnsTarget      = "xds:///dns.default:50051"
	namesTarget    = "xds:///names:50051"
	anywhereTarget = "xds:///anywhere:50051"
	awayTarget     = "xds:///away:50051"
)

// A program whose gRPC is configured by our discovery is served by another that asks for its listener. Weights are kept;
// changes and a restart of discovery fail no call. Services of a kind that gRPC has not are refused at once, and harm no
// other. A service that goes and comes back is called again within seconds, also while it comes and goes all the time.
func TestProxyless(t *testing.T) {
	for _, l := range languages(t) {
		t.Run(l.name, func(t *testing.T) {
			w := newWorld(t)
			w.serve()
			own, other := w.server(l, "own"), w.plain("other")
			// A server has a listener while it is an endpoint of some service.
			w.write("own.yaml", grpcService("own", "STATIC", fmt.Sprintf("{address: %s1, ports: {grpc: %d}}", w.Addresses, own)))
			w.echo(own)
			w.write("split.yaml", grpcService("split", "STATIC",
				fmt.Sprintf("{address: 127.0.0.1, ports: {grpc: %d}, labels: {version: v1}}", w.plain("v1")),
				fmt.Sprintf("{address: 127.0.0.1, ports: {grpc: %d}, labels: {version: v2}}", w.plain("v2")),
			)+split)
			localhost := fmt.Sprintf("{address: localhost, ports: {grpc: %d}}", other)
			w.write("dns.yaml", grpcService("dns", "DNS", localhost))
			w.write("names.yaml", grpcService("names", "DNS", localhost, fmt.Sprintf("{address: 127.0.0.1, ports: {grpc: %d}}", other)))
			w.write("anywhere.yaml", grpcService("anywhere", "NONE"))
			away := grpcService("away", "STATIC", fmt.Sprintf("{address: 127.0.0.1, ports: {grpc: %d}}", other))
			w.write("away.yaml", away)

			c := w.client(l, "client", echoTarget, splitTarget, dnsTarget, namesTarget, anywhereTarget)
			alone := w.client(l, "alone", awayTarget) // without it there is nothing that it subscribes to
			c.await(echoTarget, answered("own"))
			c.await(splitTarget, answered("v1"))
			c.await(splitTarget, answered("v2"))
			began := time.Now() // what is written in another file may come later
			c.await(dnsTarget, answered("other"))
			c.await(namesTarget, refused(""))
			c.await(anywhereTarget, refused(""))
			t.Logf("a service of two names: %s", c.last(namesTarget))
			t.Logf("a service without endpoints: %s", c.last(anywhereTarget))

			w.echo(other)
			c.await(echoTarget, answered("other"))
			w.discovery.Stop(stopLimit)
			w.check(w.discovery.Restart())
			w.echo(own)
			c.await(echoTarget, answered("own"))

			alone.await(awayTarget, answered("other"))
			for range 2 {
				w.remove("away.yaml")
				alone.await(awayTarget, refused(""))
				w.write("away.yaml", away)
				alone.isBack(awayTarget, "other")
			}
			for range 10 {
				w.remove("away.yaml")
				w.echo(other)
				c.await(echoTarget, answered("other"))
				w.write("away.yaml", away)
				w.echo(own)
				c.await(echoTarget, answered("own"))
			}
			alone.isBack(awayTarget, "other")

			c.unharmed(echoTarget, began)
			c.unharmed(splitTarget, began)
			c.shares(splitTarget, began, "v1", 0.8)
		})
	}
}

// echo makes the service echo lead to a port of the proxies' own address.
func (w *world) echo(port int) {
	w.T.Helper()
	w.write("echo.yaml", grpcService("echo", "STATIC", fmt.Sprintf("{address: %s1, ports: {grpc: %d}}", w.Addresses, port)))
}

// remove takes a file out of the configuration.
func (w *world) remove(name string) {
	w.T.Helper()
	w.check(os.Remove(filepath.Join(w.config, name)))
}

// isBack waits until calls of a target are answered, which must not last.
func (c calls) isBack(target, by string) {
	c.w.T.Helper()
	watch := lab.StartStopwatch()
	took := c.await(target, answered(by))
	watch.Within(c.w.T, backLimit, fmt.Sprintf("%s: the return of %s", c.Name, target))
	c.w.T.Logf("%s: %s is back after %s", c.Name, target, took)
}

// shares judges how many of the calls of a target since a time were answered by one of its servers.
func (c calls) shares(target string, since time.Time, by string, want float64) {
	c.w.T.Helper()
	const enough = 500 // of fewer the share differs by chance: of 100 it is one in eighty times off by 0.1
	var made []call
	c.w.check(lab.Eventually(time.Minute, func() error {
		if made = c.of(target, since); len(made) < enough {
			return fmt.Errorf("%s: %d calls of %s, want %d", c.Name, len(made), target, enough)
		}
		return nil
	}))
	n := 0
	for _, m := range made {
		if m.answer == by {
			n++
		}
	}
	share := float64(n) / float64(len(made))
	c.w.T.Logf("%s: %s answered %d of %d calls of %s, %.2f", c.Name, by, n, len(made), target, share)
	if share < want-0.1 || share > want+0.1 {
		c.w.T.Errorf("%s: %s has %.2f of the calls, want %.2f", c.Name, by, share, want)
	}
}
