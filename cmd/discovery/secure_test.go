package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// certificate is one that signs itself, so that it is its own root too.
func certificate(t *testing.T, dir string, serial int64) (tls.Certificate, []string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	var flags []string
	for flag, block := range map[string]*pem.Block{
		"--tlsCertFile": {Type: "CERTIFICATE", Bytes: cert}, "--caCertFile": {Type: "CERTIFICATE", Bytes: cert},
		"--tlsKeyFile": {Type: "PRIVATE KEY", Bytes: text},
	} {
		path := filepath.Join(dir, strings.TrimPrefix(flag, "--"))
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		flags = append(flags, flag, path)
	}
	return tls.Certificate{Certificate: [][]byte{cert}, PrivateKey: key}, flags
}

// TestServeReloadsCertificates: new connections see the new files without a restart.
func TestServeReloadsCertificates(t *testing.T) {
	dir := t.TempDir()
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
	own, flags := certificate(t, dir, 3)
	s := startServe(t, append(flags, "--configDir", t.TempDir(), "--secureGRPCAddr", address)...)
	presents(own, 3)
	own, _ = certificate(t, dir, 4)
	presents(own, 4)
	s.stop(t)
}
