package status

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/internal/connlimit"
	"github.com/pilotlight/pilotlight/internal/local"
)

// Limits of the connections of a port. Each kind of source has its own limit, so that none can use up another's.
const (
	strangerRoom = 64
	nodeRoom     = 16
	localRoom    = 16
	oneStranger  = 8 // connections of one address, or of one network /64 of IPv6
)

// kind is where a connection comes from.
type kind int

const (
	stranger   kind = iota
	nodes           // the node of the pod, whose kubelet sends probes; this host by one of its own addresses; a Unix socket
	localhosts      // 127.0.0.1 and ::1
)

// gate is a listener that always accepts. When a kind is at its limit, the gate closes a connection for each new one, as
// package connlimit says. A connection is served when its request has been read. A probe sends its request right
// after it has connected, so it is such a connection only for a moment.
type gate struct {
	net.Listener
	node []netip.Addr
	room map[kind]int

	mu     sync.Mutex
	came   int
	guests map[kind][]*guest // oldest first
}

// guest is an accepted connection.
type guest struct {
	net.Conn
	gate   *gate
	kind   kind
	source netip.Prefix
	number int  // counts all connections of the gate
	heard  bool // its request has been read
}

// newGate returns a gate for a listener. A port takes at most a quarter of the process's descriptors.
func newGate(l net.Listener, node []netip.Addr) *gate {
	return &gate{Listener: l, node: node, room: rooms(openFiles()), guests: map[kind][]*guest{}}
}

func rooms(openFiles uint64) map[kind]int {
	within := func(most, parts int) int { return max(1, min(most, int(min(openFiles, 1<<20))/parts)) }
	return map[kind]int{stranger: within(strangerRoom, 8), nodes: within(nodeRoom, 16), localhosts: within(localRoom, 16)}
}

// openFiles returns how many descriptors the process may have.
func openFiles() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 1024
	}
	return limit.Cur
}

func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		switch {
		case err == nil:
			return g.admit(conn), nil
		case !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE) || !g.relieve():
			return nil, err
		}
	}
}

// relieve closes the oldest connection that has not sent its request yet, if there is one. It is called when the
// process has no descriptor left for the next connection.
func (g *gate) relieve() bool {
	g.mu.Lock()
	var oldest *guest
	for kind, guests := range g.guests {
		i := slices.IndexFunc(guests, func(g *guest) bool { return !g.heard })
		if i < 0 || oldest != nil && oldest.number < guests[i].number {
			continue
		}
		oldest = g.guests[kind][i]
	}
	g.mu.Unlock()
	return oldest != nil && oldest.Close() == nil
}

func (g *gate) admit(conn net.Conn) *guest {
	remote, own := addressOf(conn.RemoteAddr()), addressOf(conn.LocalAddr())
	newcomer := &guest{Conn: conn, gate: g, kind: g.kindOf(remote, own), source: connlimit.SourceOf(remote)}
	g.mu.Lock()
	g.came++
	newcomer.number = g.came
	guests := append(g.guests[newcomer.kind], newcomer)
	var leaves *guest
	if i := evicted(guests, g.room[newcomer.kind]); i >= 0 {
		leaves = guests[i]
		guests = slices.Delete(guests, i, i+1)
	}
	g.guests[newcomer.kind] = guests
	g.mu.Unlock()
	if leaves != nil {
		leaves.Conn.Close()
	}
	return newcomer
}

func (g *gate) kindOf(remote, own netip.Addr) kind {
	switch {
	case local.Address(remote):
		return localhosts
	case remote == own && !remote.IsLoopback() || slices.Contains(g.node, remote):
		return nodes
	}
	return stranger
}

// evicted returns the index of the connection to close, -1 for none. The last one in guests is the new connection. A
// source of strangers that exceeds its own share gives way itself.
func evicted(guests []*guest, most int) int {
	newest, own := guests[len(guests)-1], 0
	for _, g := range guests {
		if g.source == newest.source {
			own++
		}
	}
	tooMany := newest.kind == stranger && own > oneStranger
	if !tooMany && len(guests) <= most {
		return -1
	}
	var among []connlimit.Guest
	var index []int
	for i, g := range guests {
		if !tooMany || g.source == newest.source {
			among, index = append(among, connlimit.Guest{Source: g.source, Served: g.heard}), append(index, i)
		}
	}
	return index[connlimit.Victim(among, connlimit.Ends)]
}

// Close closes the connection and removes it from the gate.
func (g *guest) Close() error {
	g.gate.leave(g)
	return g.Conn.Close()
}

func (g *gate) leave(who *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.guests[who.kind] = slices.DeleteFunc(g.guests[who.kind], func(other *guest) bool { return other == who })
}

// hear is the ConnState callback of an http.Server.
func hear(conn net.Conn, state http.ConnState) {
	if guest, ok := conn.(*guest); ok && state == http.StateActive {
		guest.gate.mu.Lock()
		guest.heard = true
		guest.gate.mu.Unlock()
	}
}

func addressOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// NodeAddresses returns the addresses from which a kubelet may send probes: the gateways of the default routes, and
// hostIP, the host's address in the environment, which may be empty.
func NodeAddresses(root fs.FS, hostIP string) (node []netip.Addr) {
	if ip, err := netip.ParseAddr(hostIP); err == nil {
		node = append(node, ip.Unmap())
	}
	four, _ := fs.ReadFile(root, "proc/net/route")
	for line := range strings.Lines(string(four)) { // Iface Destination Gateway …, of which the numbers are little-endian
		if f := strings.Fields(line); len(f) > 2 && f[1] == "00000000" {
			node = appendGateway(node, f[2], true)
		}
	}
	six, _ := fs.ReadFile(root, "proc/net/ipv6_route")
	for line := range strings.Lines(string(six)) { // destination, its length, source, its length, next hop …
		if f := strings.Fields(line); len(f) > 4 && f[1] == "00" {
			node = appendGateway(node, f[4], false)
		}
	}
	return node
}

func appendGateway(node []netip.Addr, text string, reversed bool) []netip.Addr {
	raw, err := hex.DecodeString(text)
	if err != nil {
		return node
	}
	if reversed {
		slices.Reverse(raw)
	}
	if ip, ok := netip.AddrFromSlice(raw); ok && !ip.IsUnspecified() && !slices.Contains(node, ip) {
		node = append(node, ip)
	}
	return node
}
