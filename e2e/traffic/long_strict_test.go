//go:build long

package traffic

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

var ofEachKind = flag.Int("of-each-kind", 2000, "connections of each kind that a port under STRICT and one under PERMISSIVE is shown")

// crowd dials n times, at the ports of all protocols in turn, and returns how many were answered, and the first error of the others.
func (p *peers) crowd(n int, config func(protocol string) *tls.Config) (answered int64, fault error) {
	protocols, once := slices.Sorted(maps.Keys(p.ports)), sync.Once{}
	var count, next atomic.Int64
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				protocol := protocols[i%int64(len(protocols))]
				if _, err := p.dial(protocol, config(protocol)); err == nil {
					count.Add(1)
				} else {
					once.Do(func() { fault = fmt.Errorf("port %q: %w", protocol, err) })
				}
			}
		})
	}
	clients.Wait()
	return count.Load(), fault
}

// Of two thousand connections of each foreign kind none arrives under STRICT; under PERMISSIVE all of plain text and all of the mesh arrive.
func TestLongStrictLetsNothingForeignIn(t *testing.T) {
	p := newPeers(t)
	n := *ofEachKind
	own := p.certificate(p.ca.Authority, meshClient, func(*x509.Certificate) {})
	mesh := func(protocol string) *tls.Config {
		if protocol == "HTTP" {
			return meshTLS(own, "istio-http/1.1", "istio", "http/1.1")
		}
		return meshTLS(own, "istio")
	}
	plain := func(string) *tls.Config { return nil }
	for protocol := range p.ports {
		p.reaches(protocol, mesh(protocol), true)
	}
	began := time.Now()
	for name, config := range map[string]func(string) *tls.Config{"plain text": plain, "the mesh": mesh} {
		if answered, err := p.crowd(n, config); answered != int64(n) {
			t.Errorf("PERMISSIVE: of %d connections of %s, %d were answered: %v", n, name, answered, err)
		}
	}

	p.Apply("PeerAuthentication default", "mtls: {mode: STRICT}")
	for protocol := range p.ports {
		p.reaches(protocol, nil, false)
		p.reaches(protocol, mesh(protocol), true)
	}
	other, err := lab.NewAuthority("other")
	p.Check(err)
	as := func(by *lab.Authority, id string, change func(*x509.Certificate)) func(string) *tls.Config {
		pair := p.certificate(by, id, change)
		return func(protocol string) *tls.Config {
			config := mesh(protocol)
			config.Certificates = pair
			return config
		}
	}
	none := func(*x509.Certificate) {}
	before := p.arrived.Load()
	kinds := map[string]func(string) *tls.Config{
		"plain text":     plain,
		"a foreign root": as(other, meshClient, none),
		"a wrong SAN":    as(p.ca.Authority, "spiffe://cluster.local.evil/ns/default/sa/client", none),
		"expired":        as(p.ca.Authority, meshClient, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }),
		"not yet valid":  as(p.ca.Authority, meshClient, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }),
	}
	for name, config := range kinds {
		if answered, _ := p.crowd(n, config); answered > 0 {
			t.Errorf("STRICT: of %d connections of %s, %d were answered", n, name, answered)
		}
	}
	if arrived := p.arrived.Load() - before; arrived > 0 {
		t.Errorf("STRICT: of %d foreign connections, %d arrived", n*len(kinds), arrived)
	}
	if answered, err := p.crowd(n, mesh); answered != int64(n) {
		t.Errorf("STRICT: of %d connections of the mesh, %d were answered: %v", n, answered, err)
	}
	t.Logf("STRICT: of %d foreign connections none arrived, of %d of the mesh all; PERMISSIVE: all of %d; in %s", n*len(kinds), n, 2*n, time.Since(began).Round(time.Second))
}
