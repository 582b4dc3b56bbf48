package procnet

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestAcceptedTellsWhatAParentStillServes(t *testing.T) {
	const (
		head  = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
		other = "   0: 0100007F:9C40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 900 1 0 100 0 0 10 0\n" // 40000
		named = "0000000051f1: 00000002 00000000 00000000 0002 01 78 /etc/istio/proxy/hot_parent_12345670\n"
	)
	tcp := func(port int, state string) string {
		return fmt.Sprintf("   1: 0100007F:%04X 0200007F:1F90 %s 00000000:00000000 00:00000000 00000000     0        0 77 1 0 20 4 30 10 -1\n", port, state)
	}
	for _, test := range []struct {
		name   string
		tables Tables
		want   bool
	}{
		{"nothing", Tables{tcp: head + other, unix: named}, false},
		{"it listens", Tables{tcp: head + tcp(33000, "0A")}, true},
		{"to an upstream", Tables{tcp: head + other + tcp(33000, "01")}, false},
		{"accepted at a low port", Tables{tcp: head + tcp(15006, "01")}, true},
		{"accepted where its newcomer listens", Tables{tcp: head + other + tcp(40000, "01")}, true},
		{"accepted where it listened itself", Tables{tcp: head + tcp(41000, "01")}, true},
		{"closing at its client's end", Tables{tcp: head + tcp(15006, "08")}, true},
		{"of IPv6", Tables{tcp: head + "   1: 00000000000000000000000001000000:1F90 00000000000000000000000001000000:9C42 01 0:0 0:0 0 0 0 77 1\n"}, true},
		{"somebody else's", Tables{tcp: head + "   1: 0100007F:1F90 0200007F:9C42 01 0:0 0:0 0 0 0 78 1\n"}, false},
		{"it is sent datagrams", Tables{udp: head + tcp(15053, "07")}, true},
		{"it sends datagrams", Tables{udp: head + tcp(33000, "07")}, false},
		{"accepted at a Unix socket", Tables{unix: "0000000051f1: 00000003 00000000 00000000 0001 03 77 /run/in.sock\n"}, true},
		{"it listens at a Unix socket", Tables{unix: "0000000051f1: 00000002 00000000 00010000 0001 01 77 /run/in.sock\n"}, true},
		{"to a Unix socket", Tables{unix: "0000000051f1: 00000003 00000000 00000000 0001 03 77\n"}, false},
		{"a hot-restart socket", Tables{unix: "0000000051f1: 00000002 00000000 00000000 0002 01 77 /x/hot_child_1\n"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.tables.outgoing = outgoingPorts{32768, 60999}
			if got := test.tables.Accepted(map[string]bool{"77": true}, Ports{41000: true}); got != test.want {
				t.Errorf("accepted: %t, want %t", got, test.want)
			}
		})
	}
}

// The kernel's own tables, of this very process.
func TestAcceptedAsTheKernelTells(t *testing.T) {
	us := os.Getpid()
	for _, network := range []string{"tcp4", "tcp6", "unix"} {
		t.Run(network, func(t *testing.T) {
			at := map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "unix": filepath.Join(t.TempDir(), "s")}[network]
			listener, err := net.Listen(network, at)
			must(t, err)
			dialled, err := net.Dial(network, listener.Addr().String())
			must(t, err)
			defer dialled.Close()
			conn, err := listener.Accept()
			must(t, err)
			defer conn.Close()
			tables, err := ReadTables(us)
			must(t, err)
			all, err := SocketsOf(us)
			must(t, err)
			only := func(c any) map[string]bool { return map[string]bool{inodeOf(t, c): true} }
			var known Ports
			if address, ok := listener.Addr().(*net.TCPAddr); ok {
				if known = tables.Listened(all); !known[uint16(address.Port)] {
					t.Errorf("listened: %v, want %d", known, address.Port)
				}
			}
			listener.Close()
			for _, test := range []struct {
				name string
				of   any
				want bool
			}{{"accepted", conn, true}, {"dialled", dialled, false}} {
				if got := tables.Accepted(only(test.of), known); got != test.want {
					t.Errorf("%s: %t, want %t", test.name, got, test.want)
				}
			}
		})
	}
}

// inodeOf returns the inode of a connection's socket.
func inodeOf(t *testing.T, conn any) string {
	t.Helper()
	file, err := conn.(interface{ File() (*os.File, error) }).File()
	must(t, err)
	defer file.Close()
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	must(t, err)
	return link[len("socket:[") : len(link)-1]
}
