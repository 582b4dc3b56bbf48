package envoy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Sends reports whether an Envoy has the connection that came from peer to own, both addresses of this host: an Envoy of
// this slot, or one of another agent of the same user here. It is decided by the owner of the peer's socket, since every
// header may come from Envoy's client. It costs a few system calls, and one for each descriptor of an Envoy if the socket
// has the Envoy's user.
//
// An error means that nobody can tell: the peer has closed its socket, or the kernel does not show it.
func (s *Slot) Sends(peer, own netip.AddrPort) (bool, error) {
	socket, err := socketOf(peer, own)
	if err != nil {
		return false, fmt.Errorf("find the program behind %s: %w", peer, err)
	}
	for _, pid := range s.envoys() {
		if facts, err := FactsOf(pid); err == nil && facts.Ended() {
			continue // the kernel shows nobody the descriptors of a process that is not reaped yet
		}
		uid, err := fileUser(pid)
		if err == nil && uid == socket.uid {
			var has bool
			if has, err = holds(pid, socket.inode); has {
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
	var own []os.FileInfo
	for _, pid := range pids {
		if info, err := os.Stat(executableOf(pid)); err == nil {
			own = append(own, info)
		}
	}
	processes, _ := filepath.Glob("/proc/[1-9]*") // the only error is a bad pattern
	for _, process := range processes {
		pid, err := strconv.Atoi(filepath.Base(process))
		if err != nil || pid == os.Getpid() || slices.Contains(pids, pid) {
			continue
		}
		info, err := os.Stat(executableOf(pid))
		for _, known := range own {
			if err == nil && os.SameFile(info, known) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

func executableOf(pid int) string { return fmt.Sprintf("/proc/%d/exe", pid) }

// fileUser returns the user that owns what a process opens. The kernel shows it for every process.
func fileUser(pid int) (uint32, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if uids, found := strings.CutPrefix(line, "Uid:"); found { // real, effective, saved, of the file system
			if fields := strings.Fields(uids); len(fields) == 4 {
				uid, err := strconv.ParseUint(fields[3], 10, 32)
				return uint32(uid), err
			}
		}
	}
	return 0, fmt.Errorf("parse /proc/%d/status: it has no Uid", pid)
}

// holds reports whether a process has a socket open.
func holds(pid int, inode uint32) (bool, error) {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return false, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return false, err
	}
	want := fmt.Sprintf("socket:[%d]", inode)
	var link [64]byte
	for _, name := range names {
		if n, err := unix.Readlinkat(int(dir.Fd()), name, link[:]); err == nil && string(link[:n]) == want {
			return true, nil
		}
	}
	return false, nil
}

// tcpSocket is the kernel's entry of a socket.
type tcpSocket struct{ inode, uid uint32 }

var errNoSocket = errors.New("it has closed its connection")

// socketOf returns the socket that is bound to local and connected to remote, by the kernel's socket diagnosis
// (sock_diag(7)), or where that is missing by the tables of /proc/net.
func socketOf(local, remote netip.AddrPort) (tcpSocket, error) {
	local, remote = plain(local), plain(remote)
	found, err := diagnose(local, remote)
	if err == nil || errors.Is(err, unix.ENOENT) {
		if err != nil || found.inode == 0 {
			return found, errNoSocket
		}
		return found, nil
	}
	for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, readErr := os.ReadFile(path)
		if readErr != nil {
			err = errors.Join(err, readErr)
			continue
		}
		if found, ok := socketIn(string(table), local, remote); ok {
			return found, nil
		}
	}
	return tcpSocket{}, errors.Join(errNoSocket, err)
}

// plain returns an address as the kernel compares it.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

const (
	diagRequest  = 20 // SOCK_DIAG_BY_FAMILY
	diagLength   = 56 // of inet_diag_req_v2
	answerLength = 72 // of inet_diag_msg
	listening    = 10 // TCP_LISTEN
)

// diagnose asks for one socket: a message of netlink(7) with an inet_diag_req_v2, answered by an inet_diag_msg.
func diagnose(local, remote netip.AddrPort) (tcpSocket, error) {
	fd, err := openDiag()
	if err != nil {
		return tcpSocket{}, err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, question(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return tcpSocket{}, os.NewSyscallError("sendto", err)
	}
	answer := make([]byte, 4096)
	n, from, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return tcpSocket{}, os.NewSyscallError("recvfrom", err)
	}
	if sender, ok := from.(*unix.SockaddrNetlink); !ok || sender.Pid != 0 {
		return tcpSocket{}, errors.New("sock_diag: an answer that is not the kernel's")
	}
	return parseAnswer(answer[:n], local.Port())
}

// openDiag returns a socket for such messages, on which no answer is awaited for longer than a second.
func openDiag() (fd int, err error) {
	fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		unix.Close(fd)
		return 0, os.NewSyscallError("setsockopt", err)
	}
	return fd, nil
}

func question(local, remote netip.AddrPort) []byte {
	family := byte(unix.AF_INET6)
	if local.Addr().Is4() {
		family = unix.AF_INET
	}
	native := binary.NativeEndian
	out := native.AppendUint32(nil, unix.SizeofNlMsghdr+diagLength)
	out = native.AppendUint16(out, diagRequest)
	out = native.AppendUint16(out, unix.NLM_F_REQUEST)
	out = append(out, make([]byte, 8)...) // sequence and port
	out = append(out, family, unix.IPPROTO_TCP, 0, 0)
	out = native.AppendUint32(out, 1<<32-1) // every state
	out = binary.BigEndian.AppendUint16(out, local.Port())
	out = binary.BigEndian.AppendUint16(out, remote.Port())
	for _, a := range []netip.Addr{local.Addr(), remote.Addr()} {
		out = append(out, a.AsSlice()...)
		out = append(out, make([]byte, 16-len(a.AsSlice()))...)
	}
	out = native.AppendUint32(out, 0)        // any interface
	return native.AppendUint64(out, 1<<64-1) // no cookie
}

func parseAnswer(answer []byte, port uint16) (tcpSocket, error) {
	native := binary.NativeEndian
	if len(answer) < unix.SizeofNlMsghdr+4 {
		return tcpSocket{}, fmt.Errorf("sock_diag: an answer of %d bytes", len(answer))
	}
	kind, body := native.Uint16(answer[4:]), answer[unix.SizeofNlMsghdr:]
	switch {
	case kind == unix.NLMSG_ERROR:
		return tcpSocket{}, fmt.Errorf("sock_diag: %w", unix.Errno(-int32(native.Uint32(body))))
	case kind != diagRequest || len(body) < answerLength:
		return tcpSocket{}, fmt.Errorf("sock_diag: an answer of type %d and %d bytes", kind, len(body))
	case body[1] == listening || binary.BigEndian.Uint16(body[4:]) != port: // it has no connection, but a listener that fits
		return tcpSocket{}, fmt.Errorf("sock_diag: %w", unix.ENOENT)
	}
	return tcpSocket{uid: native.Uint32(body[64:]), inode: native.Uint32(body[68:])}, nil
}

// socketIn searches a table of proc_net_tcp(5).
func socketIn(table string, local, remote netip.AddrPort) (tcpSocket, bool) {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		const localField, remoteField, uidField, inodeField = 1, 2, 7, 9
		if len(fields) <= inodeField || !named(fields[localField], local) || !named(fields[remoteField], remote) {
			continue
		}
		uid, err1 := strconv.ParseUint(fields[uidField], 10, 32)
		inode, err2 := strconv.ParseUint(fields[inodeField], 10, 32)
		if err1 == nil && err2 == nil && inode != 0 {
			return tcpSocket{uint32(inode), uint32(uid)}, true
		}
	}
	return tcpSocket{}, false
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
