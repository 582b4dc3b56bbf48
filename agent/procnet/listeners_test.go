package procnet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// reuse listens as Envoy does, so that a second socket may have the same address.
func reuse(t *testing.T, address string) net.Listener {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		_ = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return err
	}}
	l, err := config.Listen(context.Background(), "tcp", address)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// The kernel lists the listeners of both families, each with its address.
func TestListeners(t *testing.T) {
	want := map[netip.AddrPort]bool{}
	for _, address := range []string{"127.0.0.1:0", "127.0.0.77:0", "[::1]:0"} {
		want[netip.MustParseAddrPort(reuse(t, address).Addr().String())] = true
	}
	all, err := Listeners()
	must(t, err)
	own, err := SocketsOf(os.Getpid())
	must(t, err)
	for _, l := range all {
		if want[l.Address] && own[fmt.Sprint(l.Inode)] {
			delete(want, l.Address)
		}
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
}

func TestShared(t *testing.T) {
	at := func(address string, inode uint32) Listener { return Listener{netip.MustParseAddrPort(address), inode} }
	own := map[string]bool{"1": true, "2": true}
	for _, test := range []struct {
		name    string
		all     []Listener
		want    uint32
		listens bool
	}{
		{"nothing", nil, 0, false},
		{"another's only", []Listener{at("0.0.0.0:80", 9)}, 0, false},
		{"a socket for each worker", []Listener{at("0.0.0.0:80", 1), at("0.0.0.0:80", 2), at("0.0.0.0:81", 9)}, 0, true},
		{"another's too", []Listener{at("0.0.0.0:80", 9), at("0.0.0.0:80", 1)}, 9, true},
		{"another address", []Listener{at("127.0.0.2:80", 9), at("127.0.0.1:80", 1)}, 0, true},
	} {
		got, listens := Shared(test.all, own)
		if got.Inode != test.want || listens != test.listens {
			t.Errorf("%s: got %v, %t, want %d, %t", test.name, got, listens, test.want, test.listens)
		}
	}
}

// A process that shares a port is found by its socket.
func TestHolderOf(t *testing.T) {
	l := reuse(t, "127.0.0.1:0")
	all, err := Listeners()
	must(t, err)
	for _, found := range all {
		if found.Address.String() == l.Addr().String() {
			if got := HolderOf(found.Inode); !strings.HasPrefix(got, fmt.Sprintf("process %d (", os.Getpid())) {
				t.Errorf("got %q", got)
			}
			return
		}
	}
	t.Errorf("%s is not listed", l.Addr())
}

func TestParseDiagOfNonsense(t *testing.T) {
	for _, part := range [][]byte{nil, {1}, make([]byte, 16), make([]byte, 100), question(netip.AddrPort{}, netip.AddrPort{})} {
		if found, done, err := parseDiag(part); len(found) > 0 || done && err != nil {
			t.Errorf("%x: %v, %t, %v", part, found, done, err)
		}
	}
}

// The kernel lists a connection from both of its ends.
func TestDumpOfConnections(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l := reuse(t, address)
		client, err := net.Dial("tcp", l.Addr().String())
		must(t, err)
		defer client.Close()
		server, err := l.Accept()
		must(t, err)
		defer server.Close()
		here, there := client.LocalAddr().(*net.TCPAddr).AddrPort(), client.RemoteAddr().(*net.TCPAddr).AddrPort()
		var found []Socket
		must(t, Sockets(1<<Established, func(s Socket) {
			if s.Address == here && s.Peer == there || s.Address == there && s.Peer == here {
				found = append(found, s)
			}
		}))
		if len(found) != 2 || found[0].Inode == 0 || found[1].Inode == 0 || found[0].Inode == found[1].Inode || found[0].State != Established {
			t.Errorf("%s: the connection is listed as %+v", address, found)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
