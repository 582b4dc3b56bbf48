package envoy

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/agent/procnet"
)

// Sends reports whether an Envoy has the connection that came from peer to own, both addresses of this host: an Envoy of
// this slot, or one of another agent of the same user here. It is decided by the owner of the peer's socket, since every
// header may come from Envoy's client. It costs a few system calls, and one for each descriptor of an Envoy if the socket
// has the Envoy's user.
//
// An error means that nobody can tell: the peer has closed its socket, or the kernel does not show it.
func (s *Slot) Sends(peer, own netip.AddrPort) (bool, error) {
	socket, err := procnet.FindConnection(peer, own)
	if err != nil {
		return false, fmt.Errorf("find the program behind %s: %w", peer, err)
	}
	for _, pid := range s.envoys() {
		if facts, err := procnet.ReadStat(pid); err == nil && facts.Ended() {
			continue // the kernel shows nobody the descriptors of a process that is not reaped yet
		}
		uid, err := procnet.FileUser(pid)
		if err == nil && uid == socket.UID {
			var has bool
			if has, err = procnet.Holds(pid, socket.Inode); has {
				return true, nil
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			return false, fmt.Errorf("find the program behind %s: %w", peer, err)
		}
	}
	return false, nil
}

// envoys returns the Envoys on record, and processes of the same executable that this user may examine.
func (s *Slot) envoys() (pids []int) {
	s.mu.Lock()
	for _, c := range s.record.Children {
		if c.Pid != 0 {
			pids = append(pids, c.Pid)
		}
	}
	s.mu.Unlock()
	return append(pids, procnet.SameExecutable(pids)...)
}
