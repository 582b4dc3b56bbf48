package status

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"
)

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
