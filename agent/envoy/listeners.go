package envoy

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Envoy's listeners have SO_REUSEPORT, so that one epoch can follow another. Envoys of two agents of one user may so
// listen on the same address without a word, and the kernel deals out the connections between them.

// listener is a TCP socket that listens.
type listener struct {
	address netip.AddrPort
	inode   uint32
}

// listeners asks the kernel for the listening sockets of this network namespace. The answer does not grow with the
// number of connections.
func listeners() (out []listener, err error) {
	err = dumpAll(1<<listening, func(s diagSocket) { out = append(out, listener{s.address, s.inode}) })
	return out, err
}

// diagSocket is a TCP socket of this network namespace.
type diagSocket struct {
	address, peer netip.AddrPort
	inode         uint32 // 0 if no process has it any more
	state         byte
}

// dumpAll calls each with the sockets in some states, a bit for each state.
func dumpAll(states uint32, each func(diagSocket)) error {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if err := dump(family, states, each); err != nil {
			return err
		}
	}
	return nil
}

func dump(family byte, states uint32, each func(diagSocket)) error {
	fd, err := openDiag()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	any := netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
	request := question(any, any)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request[unix.SizeofNlMsghdr] = family
	binary.NativeEndian.PutUint32(request[unix.SizeofNlMsghdr+4:], states)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	answer := make([]byte, 32<<10)
	for {
		n, from, err := unix.Recvfrom(fd, answer, 0)
		if err != nil {
			return os.NewSyscallError("recvfrom", err)
		}
		if sender, ok := from.(*unix.SockaddrNetlink); !ok || sender.Pid != 0 {
			continue
		}
		found, done, err := parseDiag(answer[:n])
		for _, s := range found {
			each(s)
		}
		if done || err != nil {
			return err
		}
	}
}

// parseDiag parses a part of a dump: messages of netlink(7), the last one of which is NLMSG_DONE.
func parseDiag(part []byte) (out []diagSocket, done bool, err error) {
	native := binary.NativeEndian
	for len(part) >= unix.SizeofNlMsghdr {
		size, kind := int(native.Uint32(part)), native.Uint16(part[4:])
		if size < unix.SizeofNlMsghdr || size > len(part) {
			break
		}
		body := part[unix.SizeofNlMsghdr:size]
		part = part[min(len(part), (size+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1)):]
		switch {
		case kind == unix.NLMSG_DONE:
			return out, true, nil
		case kind == unix.NLMSG_ERROR && len(body) >= 4:
			return out, false, fmt.Errorf("sock_diag: %w", unix.Errno(-int32(native.Uint32(body))))
		case kind != diagRequest || len(body) < answerLength:
			return out, false, fmt.Errorf("sock_diag: an answer of type %d and %d bytes", kind, len(body))
		}
		length := map[bool]int{true: 4, false: 16}[body[0] == unix.AF_INET]
		address, _ := netip.AddrFromSlice(body[8 : 8+length])
		peer, _ := netip.AddrFromSlice(body[24 : 24+length])
		out = append(out, diagSocket{
			netip.AddrPortFrom(address.Unmap(), binary.BigEndian.Uint16(body[4:])), netip.AddrPortFrom(peer.Unmap(), binary.BigEndian.Uint16(body[6:])),
			native.Uint32(body[68:]), body[1],
		})
	}
	return out, false, nil
}

// shared returns the first address on which one of own listens and a socket that is none of them; listens is false
// while none of own listens.
func shared(all []listener, own map[string]bool) (found listener, listens bool) {
	mine := map[netip.AddrPort]bool{}
	for _, l := range all {
		if own[strconv.FormatUint(uint64(l.inode), 10)] {
			mine[l.address] = true
		}
	}
	for _, l := range all {
		first := !found.address.IsValid() || l.address.Compare(found.address) < 0
		if first && mine[l.address] && !own[strconv.FormatUint(uint64(l.inode), 10)] {
			found = l
		}
	}
	return found, len(mine) > 0
}

// sharedWith describes another process that listens on an address of the epoch; empty for none. Other epochs of this
// agent are none. sure is false while the epoch does not listen, or when the kernel does not answer.
func (c *process) sharedWith() (who string, sure bool) {
	all, err := listeners()
	if err != nil {
		return "", false
	}
	own, err := socketsOf(c.pid)
	if err != nil {
		return "", false
	}
	if _, listens := shared(all, own); !listens {
		return "", false
	}
	for _, pid := range c.Pids() {
		if sockets, err := socketsOf(pid); err == nil {
			maps.Copy(own, sockets)
		}
	}
	found, _ := shared(all, own)
	if found.inode == 0 {
		return "", true
	}
	return fmt.Sprintf("%s also listens on %s, and gets some of the connections", holderOf(found.inode), found.address), true
}

// holderOf names the process that has a socket, if this user may see it.
func holderOf(inode uint32) string {
	processes, _ := filepath.Glob("/proc/[1-9]*") // the only error is a bad pattern
	for _, process := range processes {
		pid, err := strconv.Atoi(filepath.Base(process))
		if err != nil {
			continue
		}
		if has, err := holds(pid, inode); err == nil && has {
			name, _ := os.ReadFile(filepath.Join(process, "comm"))
			return fmt.Sprintf("process %d (%s)", pid, strings.TrimSpace(string(name)))
		}
	}
	return "another user's process"
}
