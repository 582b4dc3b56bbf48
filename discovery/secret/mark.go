package secret

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"time"
)

// Mark tells one certificate, or one set of roots, from another, without showing it.
type Mark struct {
	Serial string    `json:"serial,omitempty"` // of the first certificate, in hexadecimal digits
	Until  time.Time `json:"until,omitzero"`   // when that one ends
	SHA256 string    `json:"sha256"`           // of all bytes
}

// MarkOf returns the mark of certificates in PEM. Bytes that are none have a hash alone.
func MarkOf(text []byte) Mark {
	sum := sha256.Sum256(text)
	m := Mark{SHA256: hex.EncodeToString(sum[:])}
	block, _ := pem.Decode(text)
	if block == nil {
		return m
	}
	if c, err := x509.ParseCertificate(block.Bytes); err == nil && c.SerialNumber != nil {
		m.Serial, m.Until = c.SerialNumber.Text(16), c.NotAfter.UTC()
	}
	return m
}
