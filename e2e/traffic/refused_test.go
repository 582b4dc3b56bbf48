package traffic

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// refuses checks that a STRICT port refuses a client of plain text, and one of TLS without a certificate, and that the agent's /why names both.
func (m *member) refuses(address string) {
	m.s.T.Helper()
	plain, err := net.Dial("tcp", address)
	m.s.Check(err)
	defer plain.Close()
	_, err = plain.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
	m.s.Check(err)
	bare, err := net.Dial("tcp", address)
	m.s.Check(err)
	defer bare.Close()
	over := tls.Client(bare, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"istio"}})
	if over.Handshake() == nil {
		_, _ = over.Read(make([]byte, 1)) // with TLS 1.3 the client hears of the refusal here
	}
	m.s.Check(lab.Eventually(patience, func() error {
		text, err := lab.Get(fmt.Sprintf("http://127.0.0.1:%d/why", m.status))
		for _, want := range []string{
			"connection of " + plain.LocalAddr().String() + " at " + address + " failed: no filter chain matches",
			"handshake of " + bare.LocalAddr().String() + " at " + address + " failed: the client has shown no certificate",
		} {
			if err == nil && !strings.Contains(text, want) {
				err = fmt.Errorf("/why lacks %q:\n%s", want, text)
			}
		}
		return err
	}))
}
