package intake

import (
	"container/list"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Small is the size up to which a request counts as small, in bytes. The first request of a proxy has some kilobytes
// over the state of the world, and 120 kB over delta in a mesh of a thousand services.
const Small = 128 << 10

// class is a share of the room.
type class int

const (
	small        class = iota // of any client
	large                     // of identified clients
	largeUnknown              // of clients that are not identified yet
	classes
)

// rooms are the shares, in bytes. A request larger than its share is admitted alone.
var rooms = [classes]struct{ all, perAddress int }{
	small:        {24 << 20, 12 << 20},
	large:        {24 << 20, 12 << 20},
	largeUnknown: {16 << 20, 5 << 20}, // an address has one of the default limit
}

// Budget is the room for the requests of all connections of a server.
type Budget struct {
	largest int                    // size of the largest request that is read, in bytes
	closed  func(peer, why string) // called for each connection that is closed, with its reason; a lock is held

	mu    sync.Mutex
	used  [classes]int
	by    [classes]map[netip.Addr]int
	open  map[*Conn]bool
	queue queue // of the connections that wait for room
}

// New returns a budget for requests of at most largest bytes: gRPC refuses larger ones. closed is called for each
// connection that the budget closes, and must not call the budget.
func New(largest int, closed func(peer, why string)) *Budget {
	b := &Budget{largest: largest, closed: closed, open: map[*Conn]bool{}}
	for i := range b.by {
		b.by[i], b.queue.queues[i] = map[netip.Addr]int{}, map[netip.Addr]*addressQueue{}
	}
	return b
}

// Held returns the number of bytes that are under way.
func (b *Budget) Held() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, used := range b.used {
		n += used
	}
	return n
}

// cost returns the bytes that a request takes, with what gRPC notes of it.
func cost(size int) int { return size + size/8 + 128 }

// shortage is the share that has no room.
type shortage int

const (
	none shortage = iota
	ofAddress
	ofAll
)

// fits returns which share has no room for n more bytes from an address. An empty share has room for any number.
func (b *Budget) fits(c class, from netip.Addr, n int) shortage {
	switch own, all := b.by[c][from], b.used[c]; {
	case own > 0 && own+n > rooms[c].perAddress:
		return ofAddress
	case all > 0 && all+n > rooms[c].all:
		return ofAll
	}
	return none
}

func (b *Budget) take(c class, from netip.Addr, n int) {
	b.used[c] += n
	if b.by[c][from] += n; b.by[c][from] == 0 {
		delete(b.by[c], from)
	}
	if n < 0 {
		b.queue.freed(c, from)
	}
}

// admit gives room to the connections that wait, as far as there is some.
func (b *Budget) admit(now time.Time) {
	for of := range classes {
		for b.admitNext(of, now) {
		}
	}
}

// admitNext tries the connection whose turn it is in a class, and reports whether another one may get room.
func (b *Budget) admitNext(of class, now time.Time) bool {
	l := b.queue.next(of)
	if l == nil {
		return false
	}
	c := l.first()
	switch other, short := c.reserve(now); {
	case short == none:
		b.queue.leave(c)
		c.wake()
	case other != of: // it has room here, and waits for another share
		b.queue.leave(c)
		b.queue.enter(c, other)
	case short == ofAddress:
		b.queue.park(l)
	default:
		return false // the room of all is for it, once it is enough
	}
	return true
}

// patience is how long a client may take.
type patience struct {
	idle  time.Duration // for the next byte of a request that is under way
	whole time.Duration // for the whole of it, and a second more for each perSecond bytes
	stuck time.Duration // for reading answers, so that its next request can be handled
	wait  time.Duration // for room
}

const perSecond = 1 << 20

var (
	calm  = patience{idle: 8 * time.Second, whole: 20 * time.Second, stuck: time.Hour, wait: 30 * time.Second}
	tight = patience{idle: 3 * time.Second, whole: 10 * time.Second, stuck: 10 * time.Second, wait: 30 * time.Second}
)

// CloseSlow closes the connections of clients that leave a request incomplete. While others wait for room, it has less
// patience.
func (b *Budget) CloseSlow(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := calm
	if b.queue.waiting > 0 {
		p = tight
	}
	for _, c := range slices.Collect(maps.Keys(b.open)) {
		if why := c.fault(now, p); why != "" {
			c.end(why)
		}
	}
	b.admit(now)
}

// fault returns the reason to close a connection, "" for none.
func (c *Conn) fault(now time.Time, p patience) string {
	if c.complete != [classes]int{} && now.Sub(c.handled) > p.stuck {
		return fmt.Sprintf("its requests wait for %s until it reads the answers", p.stuck)
	}
	if c.waits != nil {
		if now.Sub(c.since) > p.wait {
			return fmt.Sprintf("no room for its request in %s", p.wait)
		}
		return ""
	}
	for _, m := range c.parts {
		took := now.Sub(m.since)
		switch {
		case !m.reserved || m.size > window/2 && c.awaiting < c.streams: // it may wait for the server
		case now.Sub(c.came) > p.idle && took > p.idle,
			took > p.whole+time.Duration(m.size)*time.Second/perSecond:
			return fmt.Sprintf("%d of %d bytes of a request came in %s", m.size-m.left, m.size, took.Round(time.Second))
		}
	}
	return ""
}

// queue holds the connections that wait for room: a line for each class and address. Lines take turns, so an address
// with many connections does not delay those of others, and a look at whose turn it is costs the same however many
// wait.
type queue struct {
	waiting int
	queues  [classes]map[netip.Addr]*addressQueue
	turns   [classes]list.List // of *line: those of addresses whose share may have room
}

// addressQueue is the connections of one address that wait for the room of one class, in the order of their coming.
type addressQueue struct {
	of    class
	from  netip.Addr
	conns list.List     // of *Conn, never empty
	turn  *list.Element // in the class's turns; nil while the share of the address is full
}

func (l *addressQueue) first() *Conn { return l.conns.Front().Value.(*Conn) }

// next returns the line whose turn it is; nil for none.
func (q *queue) next(of class) *addressQueue {
	if e := q.turns[of].Front(); e != nil {
		return e.Value.(*addressQueue)
	}
	return nil
}

// enter appends a connection to the line of its address.
func (q *queue) enter(c *Conn, of class) {
	l := q.queues[of][c.from]
	if l == nil {
		l = &addressQueue{of: of, from: c.from}
		l.turn = q.turns[of].PushBack(l)
		q.queues[of][c.from] = l
	}
	c.queue, c.place = l, l.conns.PushBack(c)
	q.waiting++
}

// leave removes a connection. Its line goes to the end of the turns: another request of the address may have room, or
// find that it has none.
func (q *queue) leave(c *Conn) {
	l := c.queue
	l.conns.Remove(c.place)
	c.queue, c.place = nil, nil
	q.waiting--
	q.park(l)
	if l.conns.Len() == 0 {
		delete(q.queues[l.of], l.from)
	} else {
		q.freed(l.of, l.from)
	}
}

// park takes a line out of the turns, until its address has freed room.
func (q *queue) park(l *addressQueue) {
	if l.turn != nil {
		q.turns[l.of].Remove(l.turn)
		l.turn = nil
	}
}

// freed puts the line of an address back into the turns.
func (q *queue) freed(of class, from netip.Addr) {
	if l := q.queues[of][from]; l != nil && l.turn == nil {
		l.turn = q.turns[of].PushBack(l)
	}
}
