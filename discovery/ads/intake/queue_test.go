package intake

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// announce returns the bytes of a connection that announces a request of a size, and sends nothing of it.
func announce(size int) []byte {
	wire := append([]byte(http2.ClientPreface), 0, 0, messageHeader, 0, 0, 0, 0, 0, 1, 0)
	return binary.BigEndian.AppendUint32(wire, uint32(size))
}

// announced makes a connection from an address that has announced a request.
func (b *Budget) announced(t testing.TB, from byte, size int) *Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	c := b.Wrap(theirs, theirs, netip.AddrFrom4([4]byte{10, 0, 0, from}), false)
	if err := c.count(announce(size)); err != nil {
		t.Fatal(err)
	}
	return c
}

// ends are ways in which a request gives its room back, one at a time.
func (b *Budget) free(t testing.TB, c *Conn) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// Connections get room in the order of their coming, and addresses take turns: one whose share is full keeps no other one from
// its room.
func TestTurns(t *testing.T) {
	const kb = 1 << 10
	for name, test := range map[string]struct {
		hold, wait []byte // addresses whose requests of 100 kB, or for 0 of 4 MB, have room and wait
		free       []int  // of those that hold, in order
		admitted   []int  // of those that wait, in order
	}{
		"in order":                          {full(1), []byte{1, 1, 1}, []int{0, 1, 2}, []int{0, 1, 2}},
		"another address is not kept":       {full(1), []byte{1, 2, 1, 2}, []int{0}, []int{1, 3, 0}},
		"two full ones, one gets some free": {append(full(1), full(2)...), []byte{1, 2, 1, 2}, []int{110, 111}, []int{1, 3}},
		"all are full: addresses take turns": {
			append(full(1), full(2)...), []byte{3, 3, 3, 4, 5}, []int{0, 110, 1, 111}, []int{0, 3, 4, 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := New(largest, func(_, why string) { t.Errorf("closed: %s", why) })
			var holding, waiting []*Conn
			for _, from := range test.hold {
				c := b.announced(t, from, 100*kb)
				if c.waits != nil {
					t.Fatalf("a request of %d waits", from)
				}
				holding = append(holding, c)
			}
			var admitted []int
			for _, from := range test.wait {
				waiting = append(waiting, b.announced(t, from, 100*kb))
			}
			look := func() {
				for i, c := range waiting {
					if c.waits == nil && !slices.Contains(admitted, i) {
						admitted = append(admitted, i)
					}
				}
			}
			look()
			for _, i := range test.free {
				b.free(t, holding[i])
				look()
			}
			if !slices.Equal(admitted, test.admitted) {
				t.Errorf("admitted: %v, want %v", admitted, test.admitted)
			}
			for _, c := range append(holding, waiting...) {
				_ = c.Close()
			}
			if b.Held() != 0 || b.queue.waiting != 0 || !b.queue.empty() {
				t.Errorf("%d bytes are held at the end, %d connections wait", b.Held(), b.queue.waiting)
			}
		})
	}
}

// full returns an address as often as requests of 100 kB fill its share.
func full(from byte) []byte {
	return slices.Repeat([]byte{from}, rooms[small].perAddress/cost(100<<10))
}

func (q *queue) empty() bool {
	for of := range classes {
		if len(q.queues[of]) > 0 || q.turns[of].Len() > 0 {
			return false
		}
	}
	return true
}

// A connection that leaves its line, closed or identified meanwhile, delays none behind it.
func TestLeavesTheLine(t *testing.T) {
	for name, leave := range map[string]func(b *Budget, c *Conn){
		"closed":     func(_ *Budget, c *Conn) { _ = c.Close() },
		"identified": func(_ *Budget, c *Conn) { c.Identified() },
		"ended": func(b *Budget, c *Conn) {
			b.mu.Lock()
			c.end("by the test")
			b.admit(time.Now())
			b.mu.Unlock()
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := New(largest, func(string, string) {})
			holds := b.announced(t, 1, 2<<20)
			head, next := b.announced(t, 1, largest), b.announced(t, 1, 1<<20)
			if head.waits == nil || next.waits != nil {
				t.Fatalf("the first waits: %t, a small one next to it: %t", head.waits != nil, next.waits != nil)
			}
			third := b.announced(t, 1, 3<<20)
			b.free(t, next)
			if third.waits == nil {
				t.Fatal("the last one does not wait behind the first")
			}
			leave(b, head)
			b.free(t, holds)
			if head.waits != nil || third.waits != nil {
				t.Errorf("they wait: %t, %t", head.waits != nil, third.waits != nil)
			}
			_ = head.Close()
			b.free(t, third)
			if b.Held() != 0 || !b.queue.empty() {
				t.Errorf("%d bytes are held", b.Held())
			}
		})
	}
}

// What a request costs does not depend on how many connections wait.
func TestWaitingCostsNothing(t *testing.T) {
	took := func(waiting int) time.Duration {
		b := New(largest, func(_, why string) { t.Errorf("closed: %s", why) })
		for range len(full(1)) + waiting {
			b.announced(t, 1, 100<<10)
		}
		if b.queue.waiting != waiting {
			t.Fatalf("%d wait, want %d", b.queue.waiting, waiting)
		}
		best := time.Hour
		for range 10 {
			began := time.Now()
			for range 100 {
				b.free(t, b.announced(t, 2, 100<<10))
			}
			best = min(best, time.Since(began))
		}
		return best
	}
	few, many := took(10), took(3000)
	t.Logf("100 requests take %s next to 10 that wait, %s next to 3,000", few, many)
	if many > 10*few {
		t.Errorf("100 requests take %s next to 10 that wait, %s next to 3,000", few, many)
	}
}
