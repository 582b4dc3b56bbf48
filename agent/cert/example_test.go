package cert_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	"github.com/pilotlight/pilotlight/agent/cert"
)

// Whether Envoy could use a certificate is a question about a time.
func ExampleCheck() {
	made := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		fmt.Println(err)
		return
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(0x3e9), Subject: pkix.Name{CommonName: "reviews"}, DNSNames: []string{"reviews"}, NotBefore: made, NotAfter: made.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, private.Public(), private)
	if err != nil {
		fmt.Println(err)
		return
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		fmt.Println(err)
		return
	}
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})

	info, err := cert.Check(chain, key, nil, made.Add(time.Minute))
	fmt.Println(info.Serial, info.DNSNames, err)
	_, err = cert.Check(chain, key, nil, made.Add(2*time.Hour))
	fmt.Println(err)
	// Output:
	// 03e9 [reviews] <nil>
	// certificate chain: "CN=reviews" expired at 2026-11-21T13:00:00Z
}
