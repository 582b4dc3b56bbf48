//go:build kube

package kube

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay passes connections on, until it is cut: to one address after the other, and past those where nothing listens.
type relay struct {
	listener net.Listener

	mu    sync.Mutex
	to    []string
	next  int // of to
	cut   bool
	conns map[net.Conn]bool
	wait  sync.WaitGroup
}

func startRelay(t testing.TB, to ...string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	r := &relay{listener: l, to: to, conns: map[net.Conn]bool{}}
	r.wait.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.wait.Go(func() { r.pass(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.set(true)
		r.wait.Wait()
	})
	return r
}

// set cuts all connections and closes every new one, or lets them through again.
func (r *relay) set(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
	for conn := range r.conns {
		if cut {
			conn.Close()
		}
	}
}

// add lets connections go to a further address.
func (r *relay) add(to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = append(r.to, to)
}

// dial connects to the next address that takes it; nil where none does.
func (r *relay) dial() net.Conn {
	r.mu.Lock()
	n, from := len(r.to), r.next
	r.next++
	r.mu.Unlock()
	for i := range n {
		r.mu.Lock()
		to := r.to[(from+i)%n]
		r.mu.Unlock()
		if conn, err := net.Dial("tcp", to); err == nil {
			return conn
		}
	}
	return nil
}

func (r *relay) pass(from net.Conn) {
	defer from.Close()
	to := r.dial()
	if to == nil {
		return
	}
	defer to.Close()
	r.mu.Lock()
	r.conns[from], r.conns[to] = true, true
	cut := r.cut
	r.mu.Unlock()
	if !cut {
		done := make(chan struct{})
		go func() {
			_, _ = io.Copy(to, from)
			to.Close()
			close(done)
		}()
		_, _ = io.Copy(from, to)
		from.Close()
		<-done
	}
	r.mu.Lock()
	delete(r.conns, from)
	delete(r.conns, to)
	r.mu.Unlock()
}
