package procnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Connection is the kernel's entry of a socket.
type Connection struct{ Inode, UID uint32 }

var errNoSocket = errors.New("it has closed its connection")

// FindConnection returns the socket that is bound to local and connected to remote, by the kernel's socket diagnosis
// (sock_diag(7)), or where that is missing by the tables of /proc/net.
func FindConnection(local, remote netip.AddrPort) (Connection, error) {
	local, remote = plain(local), plain(remote)
	found, err := diagnose(local, remote)
	if err == nil || errors.Is(err, unix.ENOENT) {
		if err != nil || found.Inode == 0 {
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
	return Connection{}, errors.Join(errNoSocket, err)
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
func diagnose(local, remote netip.AddrPort) (Connection, error) {
	fd, err := openDiag()
	if err != nil {
		return Connection{}, err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, question(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return Connection{}, os.NewSyscallError("sendto", err)
	}
	answer := make([]byte, 4096)
	n, from, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return Connection{}, os.NewSyscallError("recvfrom", err)
	}
	if sender, ok := from.(*unix.SockaddrNetlink); !ok || sender.Pid != 0 {
		return Connection{}, errors.New("sock_diag: an answer that is not the kernel's")
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

func parseAnswer(answer []byte, port uint16) (Connection, error) {
	native := binary.NativeEndian
	if len(answer) < unix.SizeofNlMsghdr+4 {
		return Connection{}, fmt.Errorf("sock_diag: an answer of %d bytes", len(answer))
	}
	kind, body := native.Uint16(answer[4:]), answer[unix.SizeofNlMsghdr:]
	switch {
	case kind == unix.NLMSG_ERROR:
		return Connection{}, fmt.Errorf("sock_diag: %w", unix.Errno(-int32(native.Uint32(body))))
	case kind != diagRequest || len(body) < answerLength:
		return Connection{}, fmt.Errorf("sock_diag: an answer of type %d and %d bytes", kind, len(body))
	case body[1] == listening || binary.BigEndian.Uint16(body[4:]) != port: // no connection, but a listener that fits
		return Connection{}, fmt.Errorf("sock_diag: %w", unix.ENOENT)
	}
	return Connection{UID: native.Uint32(body[64:]), Inode: native.Uint32(body[68:])}, nil
}

// Socket is a TCP socket of this network namespace.
type Socket struct {
	Address, Peer netip.AddrPort
	Inode         uint32 // 0 if no process has it any more
	State         byte
}

// Sockets calls each with the sockets in some states, a bit for each state.
func Sockets(states uint32, each func(Socket)) error {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if err := dump(family, states, each); err != nil {
			return err
		}
	}
	return nil
}

func dump(family byte, states uint32, each func(Socket)) error {
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
func parseDiag(part []byte) (out []Socket, done bool, err error) {
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
		out = append(out, Socket{
			netip.AddrPortFrom(address.Unmap(), binary.BigEndian.Uint16(body[4:])),
			netip.AddrPortFrom(peer.Unmap(), binary.BigEndian.Uint16(body[6:])),
			native.Uint32(body[68:]), body[1],
		})
	}
	return out, false, nil
}

// States of sockets, by their numbers.
const Established, TimeWait = 1, 6
