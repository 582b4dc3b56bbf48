package status

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

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

// gate is a listener that always accepts. When a kind is at its limit, the gate closes a connection for each new one:
// the oldest one whose request has not been read yet, of the source that has most. A probe sends its request right
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
	within := func(room, parts int) int { return max(1, min(room, int(min(openFiles, 1<<20))/parts)) }
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
	for kind, room := range g.guests {
		i := slices.IndexFunc(room, func(g *guest) bool { return !g.heard })
		if i < 0 || oldest != nil && oldest.number < room[i].number {
			continue
		}
		oldest = g.guests[kind][i]
	}
	g.mu.Unlock()
	return oldest != nil && oldest.Close() == nil
}

func (g *gate) admit(conn net.Conn) *guest {
	remote, own := addressOf(conn.RemoteAddr()), addressOf(conn.LocalAddr())
	newcomer := &guest{Conn: conn, gate: g, kind: g.kindOf(remote, own), source: network(remote)}
	g.mu.Lock()
	g.came++
	newcomer.number = g.came
	room := append(g.guests[newcomer.kind], newcomer)
	var leaves *guest
	if i := evicted(room, g.room[newcomer.kind]); i >= 0 {
		leaves = room[i]
		room = slices.Delete(room, i, i+1)
	}
	g.guests[newcomer.kind] = room
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

// evicted returns the index of the connection to close, -1 for none. The last one in room is the new connection.
func evicted(room []*guest, most int) int {
	newest := room[len(room)-1]
	count := map[netip.Prefix]int{}
	for _, guest := range room {
		count[guest.source]++
	}
	tooMany := newest.kind == stranger && count[newest.source] > oneStranger
	if !tooMany && len(room) <= most {
		return -1
	}
	greediest := newest.source
	for _, guest := range room {
		if !tooMany && count[guest.source] > count[greediest] {
			greediest = guest.source
		}
	}
	among := func(g *guest) bool { return g != newest && (g.source == greediest || count[greediest] == 1) }
	if i := slices.IndexFunc(room, func(g *guest) bool { return among(g) && !g.heard }); i >= 0 {
		return i
	}
	return max(0, slices.IndexFunc(room, among))
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

// network returns the range of addresses that counts as one source: a client with one IPv6 address has 2^64 of them.
func network(a netip.Addr) netip.Prefix {
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	prefix, _ := a.Prefix(bits)
	return prefix
}
