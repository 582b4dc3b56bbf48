package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// killNewcomer kills the epoch that starts. It is frozen first, for it accepts connections before the agent has seen it serve:
// these are lost with it, as those of an epoch that serves.
func (c *chaos) killNewcomer() {
	pid := c.kill("starting", syscall.SIGSTOP)
	if pid == 0 {
		return
	}
	if c.accepts(c.proxy, pid) {
		c.excused = true
		c.struck = append(c.struck, "which accepted already")
	}
	_ = syscall.Kill(pid, syscall.SIGKILL) // perhaps it has ended
}

// accepts reports whether an epoch has connections of clients, or alone of those in a configPath listens for them: those that nobody
// has accepted are lost with the last listener.
func (s *standalone) accepts(configPath string, pid int) bool {
	table, err := os.ReadFile("/proc/self/net/tcp")
	s.must(err)
	own, others := socketsOf(pid), map[string]bool{}
	for _, other := range envoysIn(configPath) {
		for socket := range socketsOf(other) {
			others[socket] = others[socket] || other != pid
		}
	}
	_, port, _ := strings.Cut(s.address, ":")
	listens, shared := false, false
	for line := range strings.Lines(string(table)) { // sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …
		f := strings.Fields(line)
		const tcpListens = "0A"
		switch {
		case len(f) < 10 || !strings.HasSuffix(f[1], hexPort(port)):
		case f[3] == tcpListens:
			listens = listens || own[f[9]]
			shared = shared || others[f[9]]
		case own[f[9]]:
			return true
		}
	}
	return listens && !shared
}

// hexPort writes a port as /proc/net/tcp does.
func hexPort(port string) string {
	var n uint16
	fmt.Sscan(port, &n)
	return fmt.Sprintf(":%04X", n)
}

// socketsOf returns the inodes of a process's sockets, none of one that has ended.
func socketsOf(pid int) map[string]bool {
	sockets := map[string]bool{}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, path := range links {
		link, _ := os.Readlink(path) // perhaps closed since
		if inode, found := strings.CutPrefix(link, "socket:["); found {
			sockets[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return sockets
}
