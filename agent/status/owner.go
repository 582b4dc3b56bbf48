package status

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"

	"golang.org/x/sys/unix"
)

// SocketName is the name of a slot's Unix socket for its owner and root: it serves the reads of the ports except
// the merged metrics, and every write. Its file's name has a random token too.
const SocketName = "agent"

// The Host headers of requests to the owner's socket.
const (
	HostAgent = "agent" // the status port
	HostEnvoy = "envoy" // Envoy's admin
)

// Place is where a socket of the owner is.
type Place struct {
	Path   string
	Refuse func(pid int) error // for a process that it does not serve
	Remake func() error        // makes the directory again if it was removed; nil for one that stays
	Log    *slog.Logger
}

// ListenOwner opens a socket for the processes of its owner and of root that are not refused. It replaces a socket that is left over, since
// the caller owns the slot, and opens the socket again when its file is removed.
func ListenOwner(at Place) (net.Listener, error) {
	socket, err := openSocket(at.Path)
	if err != nil {
		return nil, err
	}
	return newOwned(newLasting(socket, at), at.Refuse), nil
}

func newOwned(l net.Listener, refuse func(pid int) error) *owned {
	return &owned{Listener: newGate(l, nil), uid: uint32(os.Geteuid()), refuse: refuse}
}

// owned accepts connections from its owner and from root only, also if the file's mode is changed, and of these only
// from processes that are not refused.
type owned struct {
	net.Listener
	uid    uint32
	refuse func(pid int) error
}

func (o *owned) Accept() (net.Conn, error) {
	for {
		conn, err := o.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if peer, err := peerOf(conn.(*guest).Conn.(*net.UnixConn)); err == nil && o.lets(peer.Uid) && o.refuse(int(peer.Pid)) == nil {
			return conn, nil
		}
		conn.Close()
	}
}

func (o *owned) lets(uid uint32) bool { return uid == o.uid || uid == 0 }

// PeerPid returns the process that opened a connection of ListenOwner's, 0 if it cannot be told.
func PeerPid(conn net.Conn) int {
	guest, ok := conn.(*guest)
	if !ok {
		return 0
	}
	peer, err := peerOf(guest.Conn.(*net.UnixConn))
	if err != nil {
		return 0
	}
	return int(peer.Pid)
}

// CheckServer returns an error if another user runs the server of a Unix socket: in a directory that other users may
// write to, any of them can create a socket. For root it accepts every server.
func CheckServer(conn net.Conn) error {
	peer, err := peerOf(conn.(*net.UnixConn))
	if self := uint32(os.Geteuid()); err == nil && peer.Uid != self && peer.Uid != 0 && self != 0 {
		err = fmt.Errorf("user %d listens there", peer.Uid)
	}
	return err
}

// peerOf returns the process and the user that connected.
func peerOf(conn *net.UnixConn) (peer *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	asked := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(asked, err); err != nil {
		return nil, fmt.Errorf("ask whose connection it is: %w", err)
	}
	return peer, nil
}

// Owner returns the handler of the socket: the status port with its writes, and Envoy's admin with the forwarded
// mutations.
func Owner(c Config, admin func() http.RoundTripper) http.Handler {
	c.owner = true
	mux := http.NewServeMux()
	mux.Handle(HostAgent+"/", Handler(c))
	mux.Handle(HostEnvoy+"/", forward(admin, c.Log))
	return mux
}
