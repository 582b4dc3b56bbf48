package intake

import (
	"io"
	"net"
	"syscall"

	"google.golang.org/grpc/mem"
)

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
