package intake

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

const largest = 4 << 20

// rig is a budget with clients. Each of its connections is read all the time, as gRPC does.
type rig struct {
	*Budget
	t      *testing.T
	closed []string // the reasons; held: mu of the budget
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t}
	r.Budget = New(largest, func(_, why string) { r.closed = append(r.closed, why) })
	return r
}

// reasons returns why connections were closed.
func (r *rig) reasons() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.closed, "; ")
}

// client is both ends of a connection.
type client struct {
	*http2.Framer
	end  net.Conn
	conn *Conn
	says chan func() // what it sends, in order
	done chan struct{}
}

// say sends something, and waits until it is sent or blocked.
func (c *client) say(what func()) {
	c.says <- what
	synctest.Wait()
}

func (r *rig) dial(from byte) *client {
	ours, theirs := net.Pipe()
	c := &client{
		Framer: http2.NewFramer(ours, nil), end: ours, says: make(chan func(), 1000), done: make(chan struct{}),
		conn: r.Wrap(theirs, theirs, netip.AddrFrom4([4]byte{10, 0, 0, from}), false),
	}
	go func() {
		defer close(c.done)
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{c.conn})
		_ = c.conn.Close()
	}()
	go func() {
		for what := range c.says {
			what()
		}
	}()
	r.t.Cleanup(func() { close(c.says); ours.Close(); <-c.done })
	c.say(func() { _, _ = ours.Write([]byte(http2.ClientPreface)) })
	return c
}

// send sends a part of a message of a size, from its begin; it may block.
func (c *client) send(stream uint32, size, part int) {
	message := binary.BigEndian.AppendUint32([]byte{0}, uint32(size))
	message = append(message, make([]byte, part)...)
	c.say(func() {
		for len(message) > 0 {
			n := min(len(message), 16<<10)
			if c.WriteData(stream, false, message[:n]) != nil {
				return
			}
			message = message[n:]
		}
	})
}

func (r *rig) pass(d time.Duration) {
	for range d / (time.Second / 2) {
		<-time.After(time.Second / 2)
		r.CloseSlow(time.Now())
		synctest.Wait()
	}
}

// alive reports whether a connection is open.
func (c *client) alive() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// Clients that announce much, and hold the last byte back, share a small room; each is closed in seconds. A client with
// a small request, or of another address with a large one, is read all the time.
func TestHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var hostile []*client
		for range 22 {
			c := r.dial(1)
			hostile = append(hostile, c)
			for stream := range uint32(15) {
				if c.alive() {
					c.send(2*stream+1, largest, largest-1)
				}
			}
		}
		if held := r.Held(); held > rooms[largeUnknown].all {
			t.Errorf("%d bytes are held, want at most %d", held, rooms[largeUnknown].all)
		}
		same, other := r.dial(1), r.dial(2)
		same.conn.Opened()
		other.conn.Opened()
		same.send(1, 100<<10, 100<<10)
		other.send(1, largest, largest)
		for name, c := range map[string]*client{"a small one of the same address": same, "a large one of another": other} {
			if c.conn.complete == [classes]int{} {
				t.Errorf("%s was not read", name)
			}
		}
		r.pass(30 * time.Second)
		for i, c := range hostile {
			if c.alive() {
				t.Errorf("connection %d is open after half a minute", i)
			}
		}
		if !same.alive() || !other.alive() {
			t.Error("others are closed:", r.reasons())
		}
		same.conn.Awaits()
		other.conn.Awaits()
		same.conn.Handled(100 << 10)
		other.conn.Handled(largest)
		if held := r.Held(); held != 0 {
			t.Errorf("%d bytes are held at the end, by %v", held, r.used)
		}
	})
}

// A request that is trickled is closed as one that stops; one that comes at a megabyte a second is not.
func TestTrickle(t *testing.T) {
	for name, test := range map[string]struct {
		size, step int
		every      time.Duration
		want       string // "" for none
	}{
		"a byte a second":    {100 << 10, 1, time.Second, "of 102400 bytes of a request came in 21s"},
		"a slow link":        {100 << 10, 8 << 10, time.Second, ""},
		"much on a slow one": {4 << 20, 256 << 10, time.Second, ""},
		"it stops":           {100 << 10, 1, 9 * time.Second, "1 of 102400 bytes of a request came in 9s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				c := r.dial(1)
				c.conn.Opened()
				c.conn.Awaits()
				c.send(1, test.size, 1)
				for sent := 1; sent < test.size && c.alive(); {
					r.pass(test.every)
					n := min(test.step, test.size-sent)
					sent += n
					c.say(func() { _ = c.WriteData(1, false, make([]byte, n)) })
				}
				if got := r.reasons(); test.want == "" && got != "" || !strings.Contains(got, test.want) {
					t.Errorf("closed: %q, want %q", got, test.want)
				}
			})
		})
	}
}

// Each way in which a request ends frees its room.
func TestRoomIsFreed(t *testing.T) {
	for name, end := range map[string]func(c *client){
		"it is reset":       func(c *client) { _ = c.WriteRSTStream(1, http2.ErrCodeCancel) },
		"its stream ends":   func(c *client) { _ = c.WriteData(1, true, nil) },
		"the client leaves": func(c *client) { c.end.Close() },
		"the server leaves": func(c *client) { _ = c.conn.Close() },
		"it is read": func(c *client) {
			_ = c.WriteData(1, false, make([]byte, 1))
			synctest.Wait()
			c.conn.Awaits()
			c.conn.Handled(1 << 20)
		},
		"its handler leaves": func(c *client) { _ = c.WriteData(1, false, make([]byte, 1)); synctest.Wait(); c.conn.Closed() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				c := r.dial(1)
				c.conn.Opened()
				c.send(1, 1<<20, 1<<20-1)
				if held := r.Held(); held != cost(1<<20) {
					t.Errorf("%d bytes are held, want %d", held, cost(1<<20))
				}
				end(c)
				synctest.Wait()
				if held := r.Held(); held != 0 || len(r.by[large])+len(r.by[largeUnknown]) != 0 {
					t.Errorf("%d bytes are held at the end", held)
				}
			})
		})
	}
}

// A large request waits until another one's room is free, and is then read on; small ones do not wait for it.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		first, second := r.dial(1), r.dial(1)
		first.conn.Opened()
		second.conn.Opened()
		first.send(1, largest, largest-1)
		second.send(1, largest, largest)
		if second.conn.waits == nil || second.conn.complete != [classes]int{} {
			t.Error("the second is read beside the first")
		}
		third := r.dial(1)
		third.send(1, 1000, 1000)
		if third.conn.complete[small] == 0 {
			t.Error("a small one waits")
		}
		_ = first.WriteData(1, false, make([]byte, 1))
		synctest.Wait()
		first.conn.Awaits()
		first.conn.Handled(largest)
		synctest.Wait()
		if second.conn.complete[largeUnknown] != cost(largest) {
			t.Errorf("the second is not read after the first: %+v", second.conn.complete)
		}
	})
}

// A request in pieces of one byte costs gRPC sixty times its size: it is closed before.
func TestSmallPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		c := r.dial(1)
		c.send(1, 8<<10, 0)
		for range 8 << 10 {
			if !c.alive() {
				break
			}
			c.say(func() { _ = c.WriteData(1, false, []byte{0}) })
		}
		if got := r.reasons(); got != "a request comes in too small pieces" {
			t.Errorf("closed: %q", got)
		}
	})
}

// A client that sends requests and reads no answers fills its share; while others wait for it, it is closed.
func TestUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		hostile := r.dial(1)
		for stream := range uint32(16) {
			hostile.conn.Opened()
			for range 10 {
				hostile.send(2*stream+1, 100<<10, 100<<10)
			}
		}
		if held := r.Held(); held > rooms[small].perAddress+cost(100<<10) {
			t.Errorf("%d bytes are held, want little more than %d", held, rooms[small].perAddress)
		}
		calm := r.dial(2)
		calm.conn.Opened()
		calm.send(1, 1000, 1000)
		if calm.conn.complete[small] == 0 {
			t.Error("another address is not read")
		}
		calm.conn.Awaits()
		calm.conn.Handled(1000)
		r.pass(12 * time.Second)
		if hostile.alive() || r.Held() != 0 {
			t.Errorf("open: %t, %d bytes held", hostile.alive(), r.Held())
		}
	})
}

// A proxy of whose requests one waits for its stream, and the next came in part, is not closed when others fill the
// share of its address with complete requests: it waits.
func TestPartBehindComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		c, others := r.dial(1), r.dial(1)
		c.conn.Opened()
		c.send(1, 1000, 1000)
		c.send(1, 100<<10, 1000)
		others.conn.Opened()
		r.mu.Lock()
		others.conn.complete[small] = rooms[small].perAddress // as many small ones that came at once
		r.take(small, others.conn.from, rooms[small].perAddress)
		r.mu.Unlock()
		c.say(func() { _ = c.WriteData(1, false, make([]byte, 10<<10)) })
		if !c.alive() || c.conn.waits == nil {
			t.Errorf("open: %t; it does not wait", c.alive())
		}
		others.conn.Closed()
		synctest.Wait()
		c.say(func() { _ = c.WriteData(1, false, make([]byte, 90<<10-1000)) })
		if held := r.Held(); !c.alive() || held != cost(1000)+cost(100<<10) || len(c.conn.parts) != 0 {
			t.Errorf("open: %t, %d bytes are held", c.alive(), held)
		}
	})
}

// A connection that ends before it has sent anything leaves nothing behind, even if gRPC closes the raw one only.
func TestNothingIsLeftOfFailedHandshakes(t *testing.T) {
	r := newRig(t)
	ours, theirs := net.Pipe()
	defer ours.Close()
	_ = r.Wrap(theirs, theirs, netip.Addr{}, false)
	theirs.Close()
	if len(r.open) != 0 {
		t.Errorf("%d connections are kept", len(r.open))
	}
}

// events are what is in frames, as text.
type events struct{ bytes.Buffer }

func (e *events) frame(stream uint32, length int) { fmt.Fprintf(e, "\nframe %d %d ", stream, length) }
func (e *events) data(_ uint32, part []byte)      { fmt.Fprintf(e, "%x", part) }
func (e *events) ended(stream uint32)             { fmt.Fprintf(e, "\nended %d", stream) }

// The frames of a connection are the same, however its bytes are cut into reads, and any bytes leave the budget with
// nothing when the connection ends.
func FuzzFrames(f *testing.F) {
	var wire bytes.Buffer
	wire.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&wire, nil)
	_ = framer.WriteSettings()
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("x"), EndHeaders: true})
	_ = framer.WriteData(1, false, []byte{0, 0, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0})
	_ = framer.WriteDataPadded(1, false, []byte{0, 9, 'x'}, make([]byte, 7))
	_ = framer.WriteDataPadded(3, true, []byte{0, 0, 0, 0, 0}, nil)
	_ = framer.WriteRSTStream(1, http2.ErrCodeCancel)
	f.Add(wire.Bytes(), []byte{1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add(append([]byte(http2.ClientPreface), 0, 0, 1, 0, 8, 0, 0, 0, 1, 200, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0), []byte{0})
	f.Fuzz(func(t *testing.T, wire, cuts []byte) {
		wire = wire[:min(len(wire), 1<<12)]
		var whole, parts events
		one, many := newFrames(), newFrames()
		one.read(wire, &whole)
		b := New(largest, func(string, string) {})
		end, _ := net.Pipe()
		c := b.Wrap(end, end, netip.IPv4Unspecified(), false)
		for i, rest := 0, wire; len(rest) > 0; i++ {
			n := len(rest)
			if len(cuts) > 0 {
				n = min(n, 1+int(cuts[i%len(cuts)]))
			}
			many.read(rest[:n], &parts)
			_ = c.count(rest[:n])
			rest = rest[n:]
		}
		if whole.String() != parts.String() {
			t.Errorf("cut into parts:\n%s\nwhole:\n%s", parts.String(), whole.String())
		}
		_ = c.Close()
		if held := b.Held(); held != 0 || b.queue.waiting+len(b.open) != 0 {
			t.Errorf("%d bytes are held, %d connections wait", held, b.queue.waiting)
		}
	})
}
