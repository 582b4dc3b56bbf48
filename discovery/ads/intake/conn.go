package intake

import (
	"container/list"
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"

	"google.golang.org/grpc/mem"
)

// Limits of one connection.
const (
	maxParts   = 64      // messages of which a part came
	waste      = 2       // the buffers of a message may have so many times its size
	fewBuffers = 4 << 10 // and so many bytes more
	window     = 1 << 20 // what a client may send on a stream that is not read
)

// Conn is a connection whose requests are counted. One goroutine reads it.
type Conn struct {
	net.Conn
	raw    net.Conn // what TLS is spoken over, else the same
	budget *Budget
	from   netip.Addr
	frames frames

	// The budget's lock is held for these.
	known    bool                // the client is identified
	parts    map[uint32]*message // by stream: the messages of which a part came
	complete [classes]int        // bytes of messages that their streams have not read
	handled  time.Time           // when a stream read one last, or there was none
	came     time.Time           // when bytes came last
	streams  int
	awaiting int           // of them, those that read
	waits    chan struct{} // closed when there is room; nil if it does not wait
	since    time.Time     // when it began to wait
	queue    *addressQueue // where it waits; nil if it does not
	place    *list.Element // in its line
	over     bool
}

var errClosed = errors.New("closed: its requests take too much memory or time")

// Wrap returns a connection that is counted. raw is below its TLS. known means that a certificate of the client was
// verified.
func (b *Budget) Wrap(conn, raw net.Conn, from netip.Addr, known bool) *Conn {
	return &Conn{Conn: conn, raw: raw, budget: b, from: from, frames: newFrames(), known: known, parts: map[uint32]*message{}}
}

// Identified marks the client as one that has named its node.
func (c *Conn) Identified() {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.known = true
	if c.queue != nil { // for the room of clients that are not identified
		c.budget.queue.leave(c)
		if of, short := c.reserve(time.Now()); short != none {
			c.budget.queue.enter(c, of)
		} else {
			c.wake()
		}
	}
}

// Opened counts a stream.
func (c *Conn) Opened() {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.streams++
}

// Awaits marks a stream that reads its next request.
func (c *Conn) Awaits() {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.awaiting++
}

// Handled frees the room of a request that its stream has read.
func (c *Conn) Handled(size int) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.awaiting--
	now := time.Now()
	class := c.classOf(size)
	if class == large && c.complete[large] == 0 {
		class = largeUnknown // it came before the client was identified
	}
	c.free(class, cost(size))
	c.handled = now
	c.budget.admit(now)
}

// Closed ends a stream. gRPC drops what a stream has not read; with the last one that is known to be nothing.
func (c *Conn) Closed() {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if c.streams--; c.streams == 0 {
		c.awaiting = 0
		c.freeComplete()
		c.budget.admit(time.Now())
	}
}

func (c *Conn) free(of class, n int) {
	n = min(n, c.complete[of])
	c.complete[of] -= n
	c.budget.take(of, c.from, -n)
}

func (c *Conn) freeComplete() {
	for of := range classes {
		c.free(of, c.complete[of])
	}
}

// Close also frees what the connection holds.
func (c *Conn) Close() error {
	c.budget.mu.Lock()
	c.drop()
	c.budget.admit(time.Now())
	c.budget.mu.Unlock()
	return c.Conn.Close()
}

// end closes a connection for what its client does. It does not say goodbye by TLS, which could take long.
func (c *Conn) end(why string) {
	if c.over {
		return
	}
	c.drop()
	c.budget.closed(c.raw.RemoteAddr().String(), why)
	_ = c.raw.Close() // gRPC closes it again
}

func (c *Conn) drop() {
	c.over = true
	for stream := range c.parts {
		c.ended(stream)
	}
	c.freeComplete()
	delete(c.budget.open, c)
	if c.queue != nil {
		c.budget.queue.leave(c)
		c.wake()
	}
}

func (c *Conn) wake() {
	close(c.waits)
	c.waits = nil
}

// Read waits until there is room for what the client has announced.
func (c *Conn) Read(p []byte) (int, error) {
	if err := c.await(); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if fault := c.count(p[:n]); fault != nil {
		return 0, fault
	}
	return n, err
}

func (c *Conn) await() error {
	c.budget.mu.Lock()
	waits := c.waits
	c.budget.mu.Unlock()
	if waits != nil {
		<-waits
	}
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if c.over {
		return errClosed
	}
	return nil
}

// count takes the bytes that came.
func (c *Conn) count(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	now := time.Now()
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if c.over {
		return errClosed
	}
	c.came = now
	c.budget.open[c] = true // not before: gRPC closes only the raw connection if it fails earlier
	c.frames.read(b, c)
	c.settle(now)
	if c.over {
		return errClosed
	}
	return nil
}

// Pooled is a connection of which gRPC holds a buffer only while there is something to read: it asks for that by this
// interface, and else recognises unwrapped connections only. An idle connection costs 32 kB less.
type Pooled struct {
	*Conn
	descriptor syscall.RawConn
	read       func(descriptor uintptr) bool

	size  int
	pool  mem.BufferPool
	bytes *[]byte
	n     int
	err   error
}

// Pool returns the connection with ReadOnReady, or itself where its socket cannot be read that way.
func (c *Conn) Pool() net.Conn {
	socket, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return c
	}
	descriptor, err := socket.SyscallConn()
	if err != nil {
		return c
	}
	p := &Pooled{Conn: c, descriptor: descriptor}
	p.read = p.tryRead
	return p
}

// tryRead reads what there is, and reports whether there was something, or an end.
func (p *Pooled) tryRead(descriptor uintptr) bool {
	p.bytes = p.pool.Get(p.size)
	for {
		p.n, p.err = syscall.Read(int(descriptor), *p.bytes)
		if p.err != syscall.EINTR {
			break
		}
	}
	if p.err == syscall.EAGAIN {
		p.pool.Put(p.bytes)
		p.bytes, p.err = nil, nil
		return false
	}
	return true
}

// ReadOnReady waits for bytes and then reads up to size of them into a buffer of the pool.
func (p *Pooled) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	if err := p.await(); err != nil {
		return nil, 0, err
	}
	p.size, p.pool, p.bytes, p.n, p.err = size, pool, nil, 0, nil
	waited := p.descriptor.Read(p.read)
	buffer, n, err := p.bytes, p.n, p.err
	p.pool, p.bytes = nil, nil
	switch {
	case waited != nil:
		err = waited
	case err == nil && n == 0:
		err = io.EOF
	case err == nil:
		err = p.count((*buffer)[:n])
	}
	if err != nil {
		if buffer != nil {
			pool.Put(buffer)
		}
		return nil, 0, err
	}
	return buffer, n, nil
}
