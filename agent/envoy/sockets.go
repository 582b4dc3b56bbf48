package envoy

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// sockets are those by which the epochs of a family talk to each other: files in the slot that only its owner may write
// to. Without --socket-path Envoy makes them abstract, and any user of the network namespace may drain Envoy by them,
// end it, or take its listen sockets (measured on 1.40). The zero sockets are of no family.
//
// Envoy replaces a file when it binds, and never removes one. They stay until the family has ended, for a newcomer
// writes to its parent's even if that has died.
type sockets struct {
	dir    string
	family Family
}

// newSockets draws a family whose sockets will be in a directory, if there is room in shared memory.
func newSockets(dir string) (sockets, error) {
	if err := SharedMemory(); err != nil {
		return sockets{}, err
	}
	family, err := NewFamily()
	if err != nil {
		return sockets{}, err
	}
	return sockets{dir, family}, nil
}

// prefix is what Envoy is given as --socket-path.
func (s sockets) prefix() string { return filepath.Join(s.dir, "hot") }

// path names a socket by its role, parent or child. Before that, udp_ is Envoy's word for the sockets by which QUIC's
// datagrams are forwarded, and new_ is ours for one that will take another's place.
func (s sockets) path(role string, epoch int) string {
	return fmt.Sprintf("%s_%s_%d", s.prefix(), role, uint64(s.family)*scale+uint64(epoch%processes))
}

// check refuses a directory in which Envoy could not bind the longest of the names.
func (s sockets) check() error {
	if path := (sockets{s.dir, lastFamily}).path("udp_parent", lastSocket); len(path) > maxSocketPath {
		return fmt.Errorf("hot-restart socket %s: its path has %d bytes, and at most %d fit: use a shorter --configPath",
			path, len(path), maxSocketPath)
	}
	return nil
}

// listen binds a socket's path, in the place of what is there, without a moment in which there is nothing or in which
// another user may write to it.
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
	return conn.(*net.UnixConn), nil // as the kernel says
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
