package hotrestart

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

// Sockets are the hot-restart sockets of a family: files in the slot that only their owner may write to. Without
// --socket-path Envoy makes abstract sockets, by which any user of the network namespace may drain Envoy, end it, or take
// its listen sockets (measured on 1.40). The zero sockets are of no family.
//
// Envoy replaces a file when it binds, and never removes one. The files stay until the family has ended, since a newcomer
// writes to its parent's socket even if the parent has died.
type Sockets struct {
	Dir    string
	Token  string // ends their names: see room
	BaseID BaseID
	Began  time.Time // start of the family's first process; after an upgrade, of the adopted one
}

// MaxSocketPath is the number of bytes in sockaddr_un, less the terminating NUL.
const MaxSocketPath = 107

// NewSockets draws a new family with its sockets in a directory. It returns an error if shared memory is not available.
func NewSockets(dir, token string) (Sockets, error) {
	if err := SharedMemory(); err != nil {
		return Sockets{}, err
	}
	family, err := NewBaseID()
	if err != nil {
		return Sockets{}, err
	}
	return Sockets{Dir: dir, Token: token, BaseID: family, Began: time.Now()}, nil
}

// Prefix is the value of Envoy's --socket-path.
func (s Sockets) Prefix() string { return filepath.Join(s.Dir, "hot-"+s.Token) }

// Path returns the path of a socket by its role, parent or child. Envoy prefixes the role with udp_ for the sockets
// that forward QUIC datagrams; the agent prefixes it with new_ for a socket that will replace another one.
func (s Sockets) Path(role string, epoch int) string {
	return fmt.Sprintf("%s_%s_%d", s.Prefix(), role, uint64(s.BaseID)*scale+uint64(epoch%processes))
}

// Check returns an error for a directory in which Envoy could not bind the longest of the names.
func (s Sockets) Check() error {
	s.BaseID = lastBaseID
	if path := s.Path("udp_parent", lastSocket); len(path) > MaxSocketPath {
		return fmt.Errorf("hot-restart socket %s: its path has %d bytes, and at most %d fit: use a shorter --configPath",
			path, len(path), MaxSocketPath)
	}
	return nil
}

// listen binds a socket and renames it over the existing path, so that at no moment the path is missing or another user
// may write to it.
func (s Sockets) listen(role string, epoch int) (*net.UnixConn, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	file := os.NewFile(uintptr(fd), role)
	defer file.Close()
	aside := s.Path("new_"+role, epoch)
	if err := unix.Fchmod(fd, 0o600); err != nil { // the file will have the mode that the socket has
		return nil, os.NewSyscallError("fchmod", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: aside}); err != nil {
		return nil, &fs.PathError{Op: "bind", Path: aside, Err: err}
	}
	if err := os.Rename(aside, s.Path(role, epoch)); err != nil {
		return nil, errors.Join(err, os.Remove(aside))
	}
	conn, err := net.FilePacketConn(file)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil // the file is a datagram socket of Unix
}

// Remove removes every socket of the family.
func (s Sockets) Remove() error {
	var errs []error
	for epoch := range processes {
		for _, role := range []string{"parent", "child", "udp_parent", "udp_child"} {
			if err := os.Remove(s.Path(role, epoch)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
