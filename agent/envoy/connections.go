package envoy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/agent"
)

// If a newcomer has closed an epoch's admin, the agent cannot query the epoch's work, so it reads the epoch's sockets. The
// epoch is idle when it listens nowhere and has no accepted connection. Connections that it has opened itself, to
// upstreams, discovery and collectors, stay open until its exit.

// ports are local ports.
type ports map[uint16]bool

// outgoingPorts are the ports that the kernel gives to connections that a process opens: from, to.
type outgoingPorts [2]uint16

func (o outgoingPorts) has(port uint16) bool { return o[0] <= port && port <= o[1] }

// awaitNoConnection reports Idle once the process neither listens nor has an accepted connection. With TPROXY,
// connections keep the original destination address, and accepted ones cannot be distinguished from others: then it
// reports nothing, and the process uses its full drain time.
//
// A look reads descriptors, then tables. A connection that was accepted between the two is not among the descriptors, and its listener may
// have been closed before the tables were read: so two looks in a row must show nothing.
func (c *process) awaitNoConnection(ctx context.Context, report func(agent.Report)) {
	if asks(c.launch.Config, "TPROXY") || asks(c.launch.Config, "transparent") {
		return
	}
	quiet := false
	for began := time.Now(); ctx.Err() == nil; {
		busy, err := c.accepted()
		if err != nil && ctx.Err() == nil {
			c.Log.Warn("connections of a draining Envoy not read: it keeps its full time to drain", "epoch", c.launch.Epoch, "err", err)
			return
		}
		if !busy && quiet && ctx.Err() == nil {
			report(agent.Idle)
			return
		}
		quiet = !busy
		select {
		case <-ctx.Done():
		case <-time.After(min(max(time.Since(began)/10, calm), time.Second)):
		}
	}
}

// accepted reports whether the process listens, or has a connection that it has accepted.
func (c *process) accepted() (bool, error) {
	sockets, err := socketsOf(c.pid)
	if err != nil {
		return false, err
	}
	tables, err := readTables(c.pid)
	if err != nil {
		return false, err
	}
	var listened ports
	if known := c.listened.Load(); known != nil {
		listened = *known
	}
	return tables.accepted(sockets, listened), nil
}

// rememberPorts stores the ports on which the process listens, before a newcomer takes over all or some of them.
func (c *process) rememberPorts() {
	sockets, err := socketsOf(c.pid)
	if err != nil {
		return // it has ended
	}
	if tables, err := readTables(c.pid); err == nil {
		listened := tables.listened(sockets)
		c.listened.Store(&listened)
	}
}

// socketsOf returns the inodes of a process's sockets.
func socketsOf(pid int) (map[string]bool, error) {
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

// socketTables are the kernel's lists of sockets of a network namespace.
type socketTables struct {
	tcp, udp, unix string
	outgoing       outgoingPorts
}

func readTables(pid int) (t socketTables, err error) {
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

// accepted reports whether one of the sockets listens, or belongs to an accepted connection: its local port is one that
// is or was listened on, or one outside of the kernel's range for outgoing connections.
func (t socketTables) accepted(sockets map[string]bool, listened ports) bool {
	now := ports{} // of any process: a newcomer inherits those of its parent
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

// listened returns the ports on which the sockets listen.
func (t socketTables) listened(sockets map[string]bool) ports {
	out := ports{}
	for _, s := range inetSockets(t.tcp) {
		if sockets[s.inode] && s.state == tcpListens {
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
