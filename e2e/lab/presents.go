package lab

import (
	"crypto/tls"
	"fmt"
)

// Presents makes a TLS handshake with address, and returns an error unless the server presents the certificate with this
// serial number. config has the server's name and the roots.
func Presents(address string, config *tls.Config, serial int64) error {
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		return err
	}
	defer conn.Close()
	if got := conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); got != serial {
		return fmt.Errorf("%s presents certificate %d for %s, want %d", address, got, config.ServerName, serial)
	}
	return nil
}
