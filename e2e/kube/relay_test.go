//go:build kube

package kube

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay passes connections on to the API server, until it is cut.
type relay struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
	wait  sync.WaitGroup
}

func startRelay(t *testing.T, to string) *relay {
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

func (r *relay) pass(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", r.to)
	if err != nil {
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
