package intake

import (
	"encoding/binary"
	"time"
)

// message is one of which a part came.
type message struct {
	header   [messageHeader]byte
	have     int // bytes of header
	size     int
	left     int       // bytes that are to come
	buffers  int       // bytes of the buffers of its frames
	class    class     // of its room
	reserved bool      // it has room
	since    time.Time // when it got its room
}

func (m *message) announced() bool { return m.have == messageHeader }

func (c *Conn) classOf(size int) class {
	switch {
	case size <= Small:
		return small
	case c.known:
		return large
	}
	return largeUnknown
}

// frame takes the header of a frame, for which gRPC makes a buffer.
func (c *Conn) frame(stream uint32, length int) {
	if length == 0 {
		return
	}
	m := c.parts[stream]
	if m == nil {
		m = &message{}
		c.parts[stream] = m
	}
	m.buffers += buffer(length)
}

// buffer returns the size of gRPC's buffer for a frame, with what it notes of it.
func buffer(length int) int {
	const note = 64
	if length <= 1<<10 {
		return length + note
	}
	size := 1 << 11
	for size < length {
		size *= 2
	}
	return size + note
}

func (c *Conn) data(stream uint32, part []byte) {
	m := c.parts[stream]
	for m != nil && len(part) > 0 {
		if !m.announced() {
			n := copy(m.header[m.have:], part)
			m.have, part = m.have+n, part[n:]
			if !m.announced() {
				return
			}
			m.size = int(min(uint64(binary.BigEndian.Uint32(m.header[1:])), uint64(c.budget.largest)))
			m.left = m.size
		}
		n := min(m.left, len(part))
		m.left, part = m.left-n, part[n:]
		if m.left == 0 {
			c.completes(m)
			*m = message{}
		}
	}
	if m != nil && m.have == 0 {
		delete(c.parts, stream)
	}
}

// completes counts a message that came as a whole. If it has no room, its bytes are there all the same: they count, and
// what comes next waits.
func (c *Conn) completes(m *message) {
	if !m.reserved {
		m.class = c.classOf(m.size)
		c.budget.take(m.class, c.from, cost(m.size))
	}
	if c.complete == [classes]int{} {
		c.handled = c.came
	}
	c.complete[m.class] += cost(m.size)
}

// ended drops what came of a message whose stream has ended.
func (c *Conn) ended(stream uint32) {
	if m := c.parts[stream]; m != nil {
		if m.reserved {
			c.budget.take(m.class, c.from, -cost(m.size))
		}
		delete(c.parts, stream)
	}
}

// settle finds room for what was announced: else the connection waits. It must not wait for the room of a message while
// it has that of another one, of which it could then not read the rest.
func (c *Conn) settle(now time.Time) {
	b := c.budget
	for _, m := range c.parts {
		if m.announced() && m.buffers > waste*m.size+fewBuffers || !m.announced() && m.buffers > fewBuffers {
			c.end("a request comes in too small pieces")
			return
		}
	}
	if len(c.parts) > maxParts {
		c.end("parts of requests on too many streams")
		return
	}
	b.admit(now)
	of, short := c.reserve(now)
	if short == none {
		return
	}
	if has, wants := c.rooms(); wants > 1 || wants > 0 && has > 0 {
		c.end("no room for a request beside its others")
		return
	}
	c.waits, c.since = make(chan struct{}), now
	b.queue.enter(c, of)
}

// rooms returns how many incomplete messages have room, and how many want it.
func (c *Conn) rooms() (has, wants int) {
	for _, m := range c.parts {
		switch {
		case m.reserved:
			has++
		case m.announced():
			wants++
		}
	}
	return has, wants
}

// reserve takes room for the announced messages. It returns which share has none, and of which class.
func (c *Conn) reserve(now time.Time) (class, shortage) {
	b := c.budget
	wants, short := classes, none
	for _, m := range c.parts {
		if m.reserved || !m.announced() {
			continue
		}
		of, n := c.classOf(m.size), cost(m.size)
		if why := b.fits(of, c.from, n); why != none {
			wants, short = of, why
			continue
		}
		b.take(of, c.from, n)
		m.class, m.reserved, m.since = of, true, now
	}
	for of := range classes {
		if c.complete[of] == 0 {
			continue
		}
		if why := b.fits(of, c.from, 0); why != none {
			return of, why
		}
	}
	return wants, short
}

// Lengths of HTTP/2 and gRPC, in bytes.
const (
	preface       = 24 // of a connection
	frameHeader   = 9
	messageHeader = 5
)

// Types and flags of frames.
const (
	typeData      = 0
	typeReset     = 3
	flagEndStream = 1
	flagPadded    = 8
)

// frames finds the payloads of DATA frames in the bytes that a client sends. It keeps no payload.
type frames struct {
	skip   int // bytes before the next header, or of padding
	header [frameHeader]byte
	have   int // bytes of header

	stream uint32
	ends   bool
	padded bool // the next byte is the length of the padding
	data   int  // bytes of data that are left in the frame
	tail   int  // bytes of padding behind them
}

func newFrames() frames { return frames{skip: preface} }

// listener hears what is in the frames.
type listener interface {
	// frame is called at the begin of a DATA frame, with the length of its payload.
	frame(stream uint32, length int)
	data(stream uint32, part []byte)
	// ended is called when no more data of a stream comes.
	ended(stream uint32)
}

// read takes the next bytes of a connection.
func (f *frames) read(b []byte, to listener) {
	for len(b) > 0 {
		switch {
		case f.skip > 0:
			n := min(f.skip, len(b))
			f.skip, b = f.skip-n, b[n:]
		case f.padded:
			f.padded = false
			f.tail = min(int(b[0]), f.data-1) // gRPC ends the connection if there is more padding than data
			f.data -= 1 + f.tail
			b = b[1:]
			f.end(to)
		case f.data > 0:
			n := min(f.data, len(b))
			to.data(f.stream, b[:n])
			f.data, b = f.data-n, b[n:]
			f.end(to)
		default:
			n := copy(f.header[f.have:], b)
			f.have, b = f.have+n, b[n:]
			if f.have == frameHeader {
				f.have = 0
				f.begin(to)
			}
		}
	}
}

// begin takes a header of a frame.
func (f *frames) begin(to listener) {
	length := int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
	flags := f.header[4]
	f.stream = binary.BigEndian.Uint32(f.header[5:]) &^ (1 << 31)
	switch f.header[3] {
	case typeData:
		to.frame(f.stream, length)
		f.data, f.ends = length, flags&flagEndStream != 0
		f.padded = flags&flagPadded != 0 && length > 0
		f.end(to)
	case typeReset:
		to.ended(f.stream)
		f.skip = length
	default:
		f.skip = length
	}
}

// end skips the padding of a frame of which all data came, and ends its stream.
func (f *frames) end(to listener) {
	if f.data > 0 || f.padded {
		return
	}
	f.skip, f.tail = f.tail, 0
	if f.ends {
		f.ends = false
		to.ended(f.stream)
	}
}
