package envoy

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// sockets are the hot-restart sockets of a family: files in the slot that only their owner may write to. Without
// --socket-path Envoy makes abstract sockets, by which any user of the network namespace may drain Envoy, end it, or take
// its listen sockets (measured on 1.40). The zero sockets are of no family.
//
// Envoy replaces a file when it binds, and never removes one. The files stay until the family has ended, since a newcomer
// writes to its parent's socket even if the parent has died.
type sockets struct {
	room
	family Family
	began  time.Time // start of the family's first process; after an upgrade, of the adopted one
}

// newSockets draws a new family with its sockets in a room. It returns an error if shared memory is not available.
func newSockets(in room) (sockets, error) {
	if err := SharedMemory(); err != nil {
		return sockets{}, err
	}
	family, err := NewFamily()
	if err != nil {
		return sockets{}, err
	}
	return sockets{room: in, family: family, began: time.Now()}, nil
}

// prefix is the value of Envoy's --socket-path.
func (s sockets) prefix() string { return filepath.Join(s.dir, "hot-"+s.token) }

// path returns the path of a socket by its role, parent or child. Envoy prefixes the role with udp_ for the sockets
// that forward QUIC datagrams; the agent prefixes it with new_ for a socket that will replace another one.
func (s sockets) path(role string, epoch int) string {
	return fmt.Sprintf("%s_%s_%d", s.prefix(), role, uint64(s.family)*scale+uint64(epoch%processes))
}

// check returns an error for a directory in which Envoy could not bind the longest of the names.
func (s sockets) check() error {
	if path := (sockets{room: s.room, family: lastFamily}).path("udp_parent", lastSocket); len(path) > maxSocketPath {
		return fmt.Errorf("hot-restart socket %s: its path has %d bytes, and at most %d fit: use a shorter --configPath",
			path, len(path), maxSocketPath)
	}
	return nil
}

// listen binds a socket and renames it over the existing path, so that at no moment the path is missing or another user
// may write to it.
func (s sockets) listen(role string, epoch int) (*net.UnixConn, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	file := os.NewFile(uintptr(fd), role)
	defer file.Close()
	aside := s.path("new_"+role, epoch)
	if err := unix.Fchmod(fd, 0o600); err != nil { // the file will have the mode that the socket has
		return nil, os.NewSyscallError("fchmod", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: aside}); err != nil {
		return nil, &fs.PathError{Op: "bind", Path: aside, Err: err}
	}
	if err := os.Rename(aside, s.path(role, epoch)); err != nil {
		return nil, errors.Join(err, os.Remove(aside))
	}
	conn, err := net.FilePacketConn(file)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil // the file is a datagram socket of Unix
}

// remove removes every socket of the family.
func (s sockets) remove() error {
	var errs []error
	for epoch := range processes {
		for _, role := range []string{"parent", "child", "udp_parent", "udp_child"} {
			if err := os.Remove(s.path(role, epoch)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
