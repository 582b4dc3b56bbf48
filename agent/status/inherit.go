package status

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

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
