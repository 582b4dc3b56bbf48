package ads

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// relay passes TCP on to a server, counts what comes back, and breaks connections on demand.
type relay struct {
	listener net.Listener
	target   string
	down     atomic.Int64
	running  sync.WaitGroup

	frozen atomic.Pointer[chan struct{}] // what comes back waits until it is closed; nil for no wait

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func newRelay(target string) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: listener, target: target, conns: map[net.Conn]bool{}}
	r.running.Go(r.accept)
	return r, nil
}

func (r *relay) Address() string { return r.listener.Addr().String() }

// Down is how many bytes the server has sent.
func (r *relay) Down() int64 { return r.down.Load() }

// Freeze keeps back what the server sends, until the function is called that it returns.
func (r *relay) Freeze() (thaw func()) {
	until := make(chan struct{})
	r.frozen.Store(&until)
	return sync.OnceFunc(func() {
		r.frozen.Store(nil)
		close(until)
	})
}

// Cut breaks every connection.
func (r *relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		c.Close()
	}
}

func (r *relay) Close() {
	r.listener.Close()
	r.Cut()
	r.running.Wait()
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.target)
		if err != nil {
			client.Close()
			continue
		}
		r.mu.Lock()
		r.conns[client], r.conns[server] = true, true
		r.mu.Unlock()
		r.running.Go(func() { r.pipe(server, client, nil) })
		r.running.Go(func() { r.pipe(client, server, &r.down) })
	}
}

func (r *relay) pipe(to, from net.Conn, count *atomic.Int64) {
	_, _ = io.Copy(counter{to, count, r}, from) // it ends when either side does
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range []net.Conn{to, from} {
		c.Close()
		delete(r.conns, c)
	}
}

type counter struct {
	io.Writer
	bytes *atomic.Int64 // nil for what goes to the server
	relay *relay
}

func (c counter) Write(p []byte) (int, error) {
	if c.bytes != nil {
		if until := c.relay.frozen.Load(); until != nil {
			<-*until
		}
		c.bytes.Add(int64(len(p)))
	}
	return c.Writer.Write(p)
}
