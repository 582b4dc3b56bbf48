package procnet

import (
	"net"
	"net/netip"
	"os"
	"testing"
)

// connect returns both ends' addresses of a connection, and the client's end.
func connect(t *testing.T, network, listen, dial string) (peer, own netip.AddrPort, client *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen(network, listen)
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(t, err)
	conn, err := net.Dial("tcp", net.JoinHostPort(dial, port))
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	accepted, err := listener.Accept()
	must(t, err)
	t.Cleanup(func() { accepted.Close() })
	return netip.MustParseAddrPort(accepted.RemoteAddr().String()), netip.MustParseAddrPort(accepted.LocalAddr().String()), conn.(*net.TCPConn)
}

// The kernel's two ways to name a socket agree.
func TestSocketOf(t *testing.T) {
	for _, dial := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.1"} {
		peer, own, _ := connect(t, "tcp", ":0", dial)
		diagnosed, err := diagnose(plain(peer), plain(own))
		must(t, err)
		var tables string
		for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			table, err := os.ReadFile(path)
			must(t, err)
			tables += string(table)
		}
		listed, ok := socketIn(tables, plain(peer), plain(own))
		if !ok || listed != diagnosed || listed.Inode == 0 || listed.UID != uint32(os.Geteuid()) {
			t.Errorf("%s: diagnosed %+v, listed %+v, %t", dial, diagnosed, listed, ok)
		}
	}
}

func TestParseAnswer(t *testing.T) {
	for _, answer := range [][]byte{nil, make([]byte, 16), make([]byte, 20), make([]byte, 200)} {
		if got, err := parseAnswer(answer, 1); err == nil {
			t.Errorf("%d bytes: %+v", len(answer), got)
		}
	}
}
