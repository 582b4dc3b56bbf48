package secret

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// A renewed certificate has another mark, with its serial number; bytes that are no certificate have a hash.
func TestMark(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	until := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	made := func(serial int64) []byte {
		c := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: until}
		der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	a, b := MarkOf(made(26)), MarkOf(made(27))
	if a.Serial != "1a" || b.Serial != "1b" || !a.Until.Equal(until) || a.SHA256 == b.SHA256 {
		t.Errorf("%+v, %+v", a, b)
	}
	for _, text := range []string{"", "roots", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		if m := MarkOf([]byte(text)); m.Serial != "" || len(m.SHA256) != 64 || !m.Until.IsZero() {
			t.Errorf("%q: %+v", text, m)
		}
	}
}
