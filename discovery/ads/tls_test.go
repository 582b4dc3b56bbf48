package ads

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
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
	k := &agentCertificates{}
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

// owned returns TLS with the certificate and roots of an authority of this process, and the connections that are not gRPC's.
func (a authority) owned(server lab.Identity) (*TLS, chan net.Conn) {
	a.t.Helper()
	pair, err := tls.X509KeyPair(server.Chain, server.Key)
	a.check(err)
	web := make(chan net.Conn, 8)
	secure, err := NewTLS(Certificates{}, &Own{
		Certificate: func() (*tls.Certificate, error) { return &pair, nil }, Roots: a.Pool, Web: func(c net.Conn) { web <- c }, Foreign: true,
	})
	a.check(err)
	return secure, web
}

// A client without a certificate may come for one, and gets no stream.
func TestSharedPortRefusesStreamsWithoutACertificate(t *testing.T) {
	a := newAuthority(t)
	secure, _ := a.owned(a.issue(2, ""))
	r := runWith(t, testLimits(), secure)
	r.Push(adstest.Mesh(1, "a"), model.Change{})
	for name, c := range map[string]struct {
		identities []lab.Identity
		code       codes.Code
	}{
		"its own":              {[]lab.Identity{a.issue(3, "spiffe://cluster.local/ns/default/sa/app")}, codes.OK},
		"no certificate":       {nil, codes.PermissionDenied},
		"another's":            {[]lab.Identity{a.issue(3, "spiffe://cluster.local/ns/other/sa/app")}, codes.PermissionDenied},
		"of another authority": {[]lab.Identity{newAuthority(t).issue(3, "spiffe://cluster.local/ns/default/sa/app")}, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			client := r.dial(a.client(nil, c.identities...))
			defer client.Close()
			if c.code == codes.OK {
				r.openOn(client).ask(content.ClusterType)
				return
			}
			if code, text := askOnce(r, client, &peerStream{t: t}); code != c.code {
				t.Errorf("got %s %q, want %s", code, text, c.code)
			}
		})
	}
}

func TestTheProtocolOfTLSDecides(t *testing.T) {
	a := newAuthority(t)
	secure, web := a.owned(a.issue(2, ""))
	r := runWith(t, testLimits(), secure)
	for name, c := range map[string]struct {
		offers []string
		web    bool
	}{
		"gRPC":      {[]string{"h2"}, false},
		"a browser": {[]string{"h2", "http/1.1"}, true},
		"HTTP/1.1":  {[]string{"http/1.1"}, true},
		"nothing":   {nil, true},
	} {
		raw, err := r.listener.Dial()
		a.check(err)
		client := tls.Client(raw, &tls.Config{RootCAs: a.Pool(), ServerName: "discovery.test", NextProtos: c.offers})
		a.check(client.SetDeadline(time.Now().Add(adstest.Deadline)))
		a.check(client.Handshake())
		if c.web {
			select {
			case conn := <-web:
				go func() { _, _ = conn.Write([]byte("hello")) }()
			case <-time.After(adstest.Deadline):
				t.Fatalf("%s: it does not get there", name)
			}
		}
		answer := make([]byte, 5)
		if _, err := client.Read(answer); err != nil || (string(answer) == "hello") != c.web {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
		_ = client.Close()
	}
}

// Without files there is nothing to read; with them they are the server's certificate, and further roots.
func TestOwnBesideFiles(t *testing.T) {
	mine, files := newAuthority(t), newAuthority(t)
	own := &Own{Certificate: func() (*tls.Certificate, error) { return nil, errors.New("not asked") }, Roots: mine.Pool}
	secure, err := NewTLS(files.write(t.TempDir(), files.issue(2, "")), own)
	mine.check(err)
	config := secure.current.Load()
	if config.GetCertificate != nil || len(config.Certificates) != 1 {
		t.Error("the certificate is not that of the files")
	}
	for name, i := range map[string]lab.Identity{"own": mine.issue(3, "spiffe://cluster.local/ns/a/sa/b"), "files": files.issue(3, "spiffe://cluster.local/ns/a/sa/b")} {
		pair, err := tls.X509KeyPair(i.Chain, i.Key)
		mine.check(err)
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: config.ClientCAs, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewTLS(Certificates{Cert: "/missing"}, own); err == nil || !strings.Contains(err.Error(), "/missing") {
		t.Errorf("files that are missing: %v", err)
	}
}

// gRPC takes its deadline back after a connection has gone to HTTP, which has set its own.
func TestADeadlineOfGRPCDoesNotReachHTTP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	e := &trackedListener{l, &connections{}, true}
	conn, err := e.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	own := conn.(*detachableConn)
	own.detached.Store(true)
	if err := errors.Join(own.Conn.SetDeadline(time.Now().Add(-time.Second)), own.SetDeadline(time.Time{})); err != nil {
		t.Fatal(err)
	}
	if _, err := own.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v, want the deadline of HTTP", err)
	}
	if (acceptedConn{conn: conn}).closed(time.Now()) {
		t.Error("it counts as closed")
	}
	_ = conn.Close()
	if !(acceptedConn{conn: conn}).closed(time.Now()) {
		t.Error("it does not count as closed")
	}
}

// Where two reload at once, the roots that were read last are used.
func TestReloadsTakeTurns(t *testing.T) {
	a := newAuthority(t)
	before, after := a.Pool(), newAuthority(t).Pool()
	held, entered, asked := make(chan struct{}), make(chan struct{}), 0
	var mu sync.Mutex
	own := &Own{Certificate: func() (*tls.Certificate, error) { return nil, errors.New("not asked") }, Roots: func() *x509.CertPool {
		mu.Lock()
		asked++
		n := asked
		mu.Unlock()
		if n == 2 {
			close(entered)
			<-held
			return before
		}
		return after
	}}
	secure, err := NewTLS(Certificates{}, own)
	a.check(err)
	var all sync.WaitGroup
	all.Go(func() { a.check(secure.Reload()) })
	<-entered
	done := make(chan struct{})
	all.Go(func() { a.check(secure.Reload()); close(done) })
	select {
	case <-done:
	case <-time.After(50 * time.Millisecond): // it waits
	}
	close(held)
	all.Wait()
	if !secure.current.Load().ClientCAs.Equal(after) {
		t.Error("the older roots are used")
	}
}
