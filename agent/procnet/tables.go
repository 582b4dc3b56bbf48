package procnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Ports are local ports.
type Ports map[uint16]bool

// outgoingPorts are the ports that the kernel gives to connections that a process opens: from, to.
type outgoingPorts [2]uint16

func (o outgoingPorts) has(port uint16) bool { return o[0] <= port && port <= o[1] }

// SocketsOf returns the inodes of a process's sockets.
func SocketsOf(pid int) (map[string]bool, error) {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	sockets := map[string]bool{}
	for _, name := range names {
		link, err := os.Readlink(filepath.Join(dir.Name(), name))
		if err != nil {
			continue // closed since
		}
		if inode, found := strings.CutPrefix(link, "socket:["); found {
			sockets[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return sockets, err
}

// Tables are the kernel's lists of sockets of a network namespace.
type Tables struct {
	tcp, udp, unix string
	outgoing       outgoingPorts
}

func ReadTables(pid int) (t Tables, err error) {
	read := func(name string) string {
		text, failed := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, name))
		if !errors.Is(failed, os.ErrNotExist) || !strings.HasSuffix(name, "6") { // a kernel without IPv6
			err = errors.Join(err, failed)
		}
		return string(text)
	}
	t.tcp, t.udp, t.unix = read("tcp")+read("tcp6"), read("udp")+read("udp6"), read("unix")
	text, failed := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if _, scanned := fmt.Sscan(string(text), &t.outgoing[0], &t.outgoing[1]); scanned != nil {
		failed = errors.Join(failed, scanned)
	}
	return t, errors.Join(err, failed)
}

// States of sockets, as /proc/net shows them.
const (
	tcpListens    = "0A"
	unixStream    = "0001"
	unixListens   = "00010000"
	unixConnected = "03"
)

// Accepted reports whether one of the sockets listens, or belongs to an accepted connection: its local port is one that
// is or was listened on, or one outside of the kernel's range for outgoing connections.
func (t Tables) Accepted(sockets map[string]bool, listened Ports) bool {
	now := Ports{} // of any process: a newcomer inherits those of its parent
	for _, s := range inetSockets(t.tcp) {
		if s.state == tcpListens {
			now[s.port] = true
		}
	}
	for _, s := range inetSockets(t.tcp) {
		if sockets[s.inode] && (s.state == tcpListens || now[s.port] || listened[s.port] || !t.outgoing.has(s.port)) {
			return true
		}
	}
	for _, s := range inetSockets(t.udp) {
		if sockets[s.inode] && s.port != 0 && (listened[s.port] || !t.outgoing.has(s.port)) {
			return true
		}
	}
	for line := range strings.Lines(t.unix) { // Num RefCount Protocol Flags Type St Inode Path
		f := strings.Fields(line)
		if len(f) >= 8 && sockets[f[6]] && f[4] == unixStream && (f[3] == unixListens || f[5] == unixConnected) {
			return true // an accepted socket has its listener's path; a socket that has connected has none
		}
	}
	return false
}

// Listened returns the ports on which the sockets listen.
func (t Tables) Listened(sockets map[string]bool) Ports {
	out := Ports{}
	for _, s := range inetSockets(t.tcp) {
		if sockets[s.inode] && s.state == tcpListens {
			out[s.port] = true
		}
	}
	return out
}

// Datagrams returns the ports to which the sockets of UDP are bound.
func (t Tables) Datagrams(sockets map[string]bool) Ports {
	out := Ports{}
	for _, s := range inetSockets(t.udp) {
		if sockets[s.inode] {
			out[s.port] = true
		}
	}
	return out
}

// inetSocket is a line of /proc/net/tcp or udp.
type inetSocket struct {
	port         uint16 // local
	state, inode string
}

func inetSockets(table string) (out []inetSocket) {
	for line := range strings.Lines(table) { // sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …
		f := strings.Fields(line)
		if len(f) < 10 {
			continue
		}
		_, hex, _ := strings.Cut(f[1], ":")
		if port, err := strconv.ParseUint(hex, 16, 16); err == nil {
			out = append(out, inetSocket{uint16(port), f[3], f[9]})
		}
	}
	return out
}

// socketIn searches a table of proc_net_tcp(5).
func socketIn(table string, local, remote netip.AddrPort) (Connection, bool) {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		const localField, remoteField, uidField, inodeField = 1, 2, 7, 9
		if len(fields) <= inodeField || !named(fields[localField], local) || !named(fields[remoteField], remote) {
			continue
		}
		uid, err1 := strconv.ParseUint(fields[uidField], 10, 32)
		inode, err2 := strconv.ParseUint(fields[inodeField], 10, 32)
		if err1 == nil && err2 == nil && inode != 0 {
			return Connection{uint32(inode), uint32(uid)}, true
		}
	}
	return Connection{}, false
}

// named reports whether an address of the table is the given one: in hexadecimal, IPv6 in four words of the host's byte
// order, the port in the network's.
func named(text string, want netip.AddrPort) bool {
	address, port, _ := strings.Cut(text, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	if err != nil || uint16(number) != want.Port() || len(address)%8 != 0 {
		return false
	}
	var raw []byte
	for ; address != ""; address = address[8:] {
		word, err := strconv.ParseUint(address[:8], 16, 32)
		if err != nil {
			return false
		}
		raw = binary.NativeEndian.AppendUint32(raw, uint32(word))
	}
	got, ok := netip.AddrFromSlice(raw)
	return ok && got.Unmap() == want.Addr()
}
