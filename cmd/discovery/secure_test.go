package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// TestServeReloadsCertificates: new connections see the new files without a restart.
func TestServeReloadsCertificates(t *testing.T) {
	dir := t.TempDir()
	ca, err := lab.NewAuthority("mesh")
	if err != nil {
		t.Fatal(err)
	}
	mount := func(serial int64) tls.Certificate {
		t.Helper()
		i, err := ca.Issue("discovery.test", serial)
		if err := errors.Join(err, i.Mount(dir)); err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(i.Chain, i.Key)
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	port, err := lab.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
	presents := func(own tls.Certificate, serial int64) {
		t.Helper()
		if err := lab.Eventually(20*time.Second, func() error {
			conn, err := tls.Dial("tcp", address, &tls.Config{
				InsecureSkipVerify: true, Certificates: []tls.Certificate{own}, NextProtos: []string{"h2"},
			})
			if err != nil {
				return err
			}
			defer conn.Close()
			if got := conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); got != serial {
				return fmt.Errorf("presents certificate %d, want %d", got, serial)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	own := mount(3)
	s := startServe(t, "--configDir", t.TempDir(), "--secureGRPCAddr", address, "--tlsCertFile", filepath.Join(dir, "cert-chain.pem"),
		"--tlsKeyFile", filepath.Join(dir, "key.pem"), "--caCertFile", filepath.Join(dir, "root-cert.pem"))
	presents(own, 3)
	own = mount(4)
	presents(own, 4)
	s.stop(t)
}
