package agent

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// An Envoy that crashes while its certificate files are broken or gone is back with the last good ones: discovery,
// which asks for a certificate, configures it anew. Certificates that are mounted later are used. Where the agent passes
// the stream on, it shows the certificates.
func TestACrashWithBrokenCertificates(t *testing.T) {
	t.Parallel()
	for _, lastGood := range []string{"off", "on"} {
		t.Run(lastGood, func(t *testing.T) { crashWithBrokenCertificates(t, lastGood) })
	}
}

func crashWithBrokenCertificates(t *testing.T, lastGood string) {
	w := newWorld(t)
	w.Service("app.test", w.Backend("app"))
	authority, later := w.authorityOf("mesh"), time.Now().Add(time.Hour)
	front := startFront(w, authority)
	certs, port := filepath.Join(t.TempDir(), "certs"), lab.Port(w.T)
	w.Check(w.identity(authority, workload, 1001, later).Mount(certs))
	s := w.agent(lab.Workload{
		Name: "client", App: "client", IP: w.Address(), ProxyPort: port, Discovery: front.address,
		Flags: []string{"--controlPlaneAuthPolicy", "MUTUAL_TLS", "--certDir", certs, "--pilotIdentity", pilot, "--lastGood", lastGood},
	})
	presents := func(serial string) {
		t.Helper()
		w.Check(lab.Eventually(lab.StopLimit, func() error {
			if shown := front.shown(); shown != serial {
				return fmt.Errorf("discovery is shown certificate %s, want %s", shown, serial)
			}
			if lastGood == "on" {
				return nil // Envoy has no use for a certificate
			}
			body, err := lab.Get("http://" + s.Admin + "/certs")
			if err == nil && !strings.Contains(body, `"serial_number": "`+serial+`"`) {
				err = fmt.Errorf("no certificate %s in %s", serial, body)
			}
			return err
		}))
	}
	serves := func() {
		t.Helper()
		w.Await(lab.ClientTo(fmt.Sprintf("127.0.0.1:%d", port), nil), "http://app.test/", lab.From("app"))
	}
	serves()
	for _, blow := range []struct {
		name   string
		strike func() error
		log    string // how the agent has seen it
	}{
		{"a key of no sense", func() error { return os.WriteFile(filepath.Join(certs, "key.pem"), []byte("rubbish"), 0o600) }, "has no PEM block"},
		{"no key", func() error { return os.Remove(filepath.Join(certs, "key.pem")) }, "key.pem"},
		{"an unreadable chain", func() error {
			path := filepath.Join(certs, "cert-chain.pem")
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o700) // unreadable for root too
		}, "is a directory, want a file"},
		{"no directory", func() error { return os.RemoveAll(certs) }, "cert-chain.pem"},
	} {
		t.Log(blow.name)
		from := len(s.Log())
		w.Check(blow.strike())
		w.Check(lab.Eventually(lab.StopLimit, func() error {
			if log := s.Log()[from:]; !strings.Contains(log, blow.log) {
				return fmt.Errorf("the agent does not say %q:\n%s", blow.log, log)
			}
			return nil
		}))
		before, err := s.Envoy()
		w.Check(err)
		w.Check(syscall.Kill(before, syscall.SIGKILL))
		front.cut() // what is shown from now on, the next one shows
		w.Check(lab.Eventually(lab.StopLimit, func() error {
			if now, err := s.Envoy(); err != nil || now == before {
				return fmt.Errorf("Envoy %d was not replaced: %d, %v", before, now, err)
			}
			return nil
		}))
		presents("03e9")
		serves()
	}
	w.Check(w.identity(authority, workload, 1002, later).Mount(certs))
	w.Check(lab.Eventually(lab.StopLimit, func() error {
		if log := s.Log(); !strings.Contains(log, `msg="certificate rotated" serial=03ea`) {
			return fmt.Errorf("the rotation is not proven:\n%s", tail(log, 10))
		}
		return nil
	}))
	front.cut()
	presents("03ea")
	serves()
}

// front is mutual TLS in front of discovery, which knows what it is shown.
type front struct {
	address string

	mu    sync.Mutex
	last  string // serial of the last connection's certificate, like Envoy's /certs; empty since the last cut
	conns []net.Conn
}

func startFront(w *world, authority *lab.Authority) *front {
	w.T.Helper()
	own := w.identity(authority, pilot, 1, time.Now().Add(time.Hour))
	pair, err := tls.X509KeyPair(own.Chain, own.Key)
	w.Check(err)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool(), NextProtos: []string{"h2"},
	})
	w.Check(err)
	f := &front{address: listener.Addr().String()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { f.pass(conn.(*tls.Conn), w.Discovery.GRPC) })
		}
	})
	w.T.Cleanup(func() {
		listener.Close()
		f.cut()
		serving.Wait()
	})
	return f
}

func (f *front) pass(conn *tls.Conn, to string) {
	defer conn.Close()
	if conn.Handshake() != nil {
		return
	}
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	f.mu.Lock()
	f.last = cert.Serial(conn.ConnectionState().PeerCertificates[0])
	f.conns = append(f.conns, conn, server)
	f.mu.Unlock()
	go io.Copy(server, conn) // ends with the two
	io.Copy(conn, server)
}

// shown returns the serial of the certificate that the last connection has shown; empty if there was none since the last cut.
func (f *front) shown() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// cut ends all connections.
func (f *front) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.Close()
	}
	f.conns, f.last = nil, ""
}
