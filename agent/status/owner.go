package status

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

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

// lookInterval is how often a socket looks whether its path still leads to it.
const lookInterval = 3 * time.Second

// lasting is a Unix socket that is opened anew when its file is removed or replaced, as by a cleaner of /run: no new client would reach it,
// and the agent's own Envoys are among those. Connections that are open stay.
type lasting struct {
	at    Place
	ended chan struct{}
	looks sync.WaitGroup

	mu     sync.Mutex
	socket *net.UnixListener
	file   os.FileInfo // nil if it was gone when the socket was inherited
	closed bool
}

// newLasting returns a listener that looks after its path until it is closed.
func newLasting(socket *net.UnixListener, at Place) *lasting {
	l := &lasting{at: at, ended: make(chan struct{}), socket: socket}
	l.file, _ = os.Lstat(at.Path)
	l.looks.Go(func() {
		ticker := time.NewTicker(lookInterval)
		defer ticker.Stop()
		said := ""
		for {
			select {
			case <-l.ended:
				return
			case <-ticker.C:
			}
			again, err := l.look()
			switch {
			case again:
				at.Log.Warn("socket of the agent opened again: its file was removed or replaced", "path", at.Path)
				said = ""
			case err != nil && err.Error() != said:
				said = err.Error()
				at.Log.Error("socket of the agent not opened again: its file was removed or replaced", "path", at.Path, "err", err)
			}
		}
	})
	return l
}

// openSocket opens a socket for its owner only. It replaces a file that is left over.
func openSocket(path string) (*net.UnixListener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return socket, nil
}

// look opens the socket again if its path does not lead to it.
func (l *lasting) look() (again bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, err := os.Lstat(l.at.Path)
	if l.closed || err == nil && l.file != nil && os.SameFile(now, l.file) {
		return false, nil
	}
	if l.at.Remake != nil {
		if err := l.at.Remake(); err != nil {
			return false, err
		}
	}
	socket, err := openSocket(l.at.Path)
	if err != nil {
		return false, err
	}
	if l.file, err = os.Lstat(l.at.Path); err != nil {
		return false, errors.Join(err, socket.Close())
	}
	old := l.socket
	old.SetUnlinkOnClose(false) // the name is the new one's
	l.socket = socket
	_ = old.Close() // ends Accept, which goes on with the new one
	return true, nil
}

func (l *lasting) current() *net.UnixListener {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.socket
}

func (l *lasting) Accept() (net.Conn, error) {
	for {
		socket := l.current()
		conn, err := socket.Accept()
		if err == nil || socket == l.current() {
			return conn, err
		}
	}
}

func (l *lasting) Addr() net.Addr { return l.current().Addr() }

func (l *lasting) Close() error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if !closed {
		close(l.ended)
	}
	l.looks.Wait()
	return l.current().Close()
}

// unwrapped returns the socket's own listener of one that this package has opened.
func unwrapped(l net.Listener) net.Listener {
	switch l := l.(type) {
	case *owned:
		return unwrapped(l.Listener)
	case *gate:
		return unwrapped(l.Listener)
	case *lasting:
		return l.current()
	}
	return l
}

// Outlast makes the socket's file outlast a listener that is closed, and returns the socket, for another image of the agent.
func Outlast(l net.Listener) (syscall.Conn, error) {
	l = unwrapped(l)
	if file, ok := l.(*net.UnixListener); ok {
		file.SetUnlinkOnClose(false)
	}
	conn, ok := l.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return conn, nil
}

// Inherit returns a listener for a socket that another image of the agent has opened. It closes the file.
func Inherit(file *os.File) (net.Listener, error) {
	defer file.Close()
	l, err := net.FileListener(file)
	if socket, ok := l.(*net.UnixListener); ok {
		socket.SetUnlinkOnClose(true)
	}
	return l, err
}

// InheritOwner is ListenOwner for an inherited socket.
func InheritOwner(l net.Listener, at Place) net.Listener {
	if socket, ok := l.(*net.UnixListener); ok {
		l = newLasting(socket, at)
	}
	return newOwned(l, at.Refuse)
}

// lastAnswers bounds how long the requests that are under way may take when the agent is replaced.
const (
	lastAnswers = 300 * time.Millisecond
	lastLook    = time.Millisecond // between two looks at the connections
)

// served is a listener that is served.
type served struct {
	listener net.Listener
	accepted chan struct{} // is closed when the last connection has been accepted
}

// finish stops to accept connections, and waits until those that were accepted are answered, also one that the kernel has just handed out.
// http.Server.Shutdown would drop a request that it has just read.
func finish(all []*served) {
	for _, p := range all {
		unwrapped(p.listener).Close()
	}
	deadline := time.Now().Add(lastAnswers)
	for _, p := range all {
		<-p.accepted
		for busy(p.listener) && time.Now().Before(deadline) {
			<-time.After(lastLook)
		}
	}
}

// busy reports whether a listener has connections.
func busy(l net.Listener) bool {
	switch l := l.(type) {
	case *owned:
		return busy(l.Listener)
	case *gate:
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, guests := range l.guests {
			if len(guests) > 0 {
				return true
			}
		}
	}
	return false
}
