package ads

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/e2e/lab"
	"github.com/pilotlight/pilotlight/internal/binding"
)

// handshake returns discovery's side of a connection: whether a client that offers protocols, with a certificate or none, gets in.
func (a authority) handshake(r *running, offers []string, identities ...lab.Identity) error {
	a.t.Helper()
	raw, err := r.listener.Dial()
	a.check(err)
	defer raw.Close()
	config := &tls.Config{RootCAs: a.Pool(), ServerName: "discovery.test", NextProtos: offers}
	for _, i := range identities {
		pair, err := tls.X509KeyPair(i.Chain, i.Key)
		a.check(err)
		config.Certificates = append(config.Certificates, pair)
	}
	client := tls.Client(raw, config)
	a.check(client.SetDeadline(time.Now().Add(adstest.Deadline)))
	if err := client.Handshake(); err != nil {
		return err
	}
	if client.ConnectionState().NegotiatedProtocol != "h2" { // the other door says hello
		_, err = client.Read(make([]byte, 5))
		return err
	}
	// In TLS 1.3 discovery's refusal follows the client's handshake: either call may meet it.
	if _, err := client.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		return err
	}
	_, err = client.Read(make([]byte, 9)) // SETTINGS
	return err
}

// A certificate that an agent has requested or shown counts on connections of agents only, and none on one of a proxy for its client.
func TestCallersOfTheSecurePort(t *testing.T) {
	const id = "spiffe://cluster.local/ns/default/sa/app"
	for _, foreign := range []bool{true, false} {
		a := newAuthority(t)
		secure, web := a.owned(a.issue(2, ""))
		secure.own.Foreign = foreign
		r := runWith(t, testLimits(), secure)
		done := make(chan struct{})
		defer close(done)
		go func() {
			for {
				select {
				case conn := <-web:
					_, _ = conn.Write([]byte("hello"))
				case <-done:
					return
				}
			}
		}()
		marked, err := a.IssueWith(id, 4, func(c *x509.Certificate) { c.ExtraExtensions = []pkix.Extension{binding.Extension()} })
		a.check(err)
		shown, never := a.issue(5, id), a.issue(6, id)
		grpc, http1 := []string{"h2"}, []string{"http/1.1"}
		for _, tt := range []struct {
			name   string
			offers []string
			shows  []lab.Identity
			in     bool
		}{
			{"an agent's stream", []string{"h2", binding.HTTP2}, []lab.Identity{marked}, true},
			{"an enrolment", []string{binding.HTTP1, "http/1.1"}, []lab.Identity{marked}, true},
			{"a file's certificate before an agent has shown it", grpc, []lab.Identity{shown}, foreign},
			{"a command with it", []string{binding.HTTP1, "http/1.1"}, []lab.Identity{shown}, true},
			{"a browser with a command's", http1, []lab.Identity{shown}, foreign},
			{"an agent with it", []string{"h2", binding.HTTP2}, []lab.Identity{shown}, true},
			{"the same by others then", grpc, []lab.Identity{shown}, false},
			{"the same over HTTP", http1, []lab.Identity{shown}, false},
			{"Envoy with a marked one, over gRPC", grpc, []lab.Identity{marked}, false},
			{"over HTTP", http1, []lab.Identity{marked}, false},
			{"without ALPN", nil, []lab.Identity{marked}, false},
			{"a browser's protocols", []string{"h2", "http/1.1"}, []lab.Identity{marked}, false},
			{"of another project", grpc, []lab.Identity{never}, foreign},
			{"no certificate", grpc, nil, true},
			{"no certificate, over HTTP", http1, nil, true},
			{"a proxy of the mesh, for a cluster of gRPC", []string{"istio", "h2"}, []lab.Identity{never}, false},
			{"of HTTP", []string{"istio-http/1.1", "istio", "http/1.1"}, []lab.Identity{never}, false},
			{"of HTTP/2", []string{"istio-h2", "istio", "h2"}, nil, false},
			{"of Istio with metadata exchange", []string{"istio-peer-exchange", "istio", "h2"}, []lab.Identity{never}, false},
			{"that offers ours too", []string{"istio", "h2", binding.HTTP2}, []lab.Identity{marked}, false},
		} {
			if err := a.handshake(r, tt.offers, tt.shows...); (err == nil) != tt.in {
				t.Errorf("foreign %t: %s: %v, want in %t", foreign, tt.name, err, tt.in)
			}
		}
	}
}

// What agents have shown is bounded, and expired certificates make room.
func TestShownCertificatesAreBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	k := &known{}
	leaf := func(n int, until time.Time) *x509.Certificate {
		return &x509.Certificate{Raw: []byte{byte(n), byte(n >> 8), byte(n >> 16)}, NotAfter: until}
	}
	for n := range maxKnown {
		k.add(leaf(n, now.Add(time.Hour)), now)
	}
	late := leaf(maxKnown, now.Add(time.Hour))
	k.add(late, now)
	if len(k.until) != maxKnown || k.admit(late, false, true) != nil || k.has(late) {
		t.Errorf("%d are remembered, want %d", len(k.until), maxKnown)
	}
	later := leaf(maxKnown+1, now.Add(3*time.Hour))
	k.add(later, now.Add(2*time.Hour))
	if len(k.until) != 1 || !k.has(later) {
		t.Errorf("%d are remembered after all but one have expired", len(k.until))
	}
	if err := k.admit(later, false, true); err == nil || !strings.Contains(err.Error(), binding.HTTP2) {
		t.Errorf("%v, want the remedy", err)
	}
}
