package intake

import (
	"container/list"
	"net/netip"
)

// queue holds the connections that wait for room: a line for each class and address. Lines take turns, so an address with many
// connections does not delay those of others, and a look at whose turn it is costs the same however many wait.
type queue struct {
	waiting int
	lines   [classes]map[netip.Addr]*line
	turns   [classes]list.List // of *line: those of addresses whose share may have room
}

// line is the connections of one address that wait for the room of one class, in the order of their coming.
type line struct {
	of    class
	from  netip.Addr
	conns list.List     // of *Conn, never empty
	turn  *list.Element // in the class's turns; nil while the share of the address is full
}

func (l *line) first() *Conn { return l.conns.Front().Value.(*Conn) }

// next returns the line whose turn it is; nil for none.
func (q *queue) next(of class) *line {
	if e := q.turns[of].Front(); e != nil {
		return e.Value.(*line)
	}
	return nil
}

// enter appends a connection to the line of its address.
func (q *queue) enter(c *Conn, of class) {
	l := q.lines[of][c.from]
	if l == nil {
		l = &line{of: of, from: c.from}
		l.turn = q.turns[of].PushBack(l)
		q.lines[of][c.from] = l
	}
	c.line, c.place = l, l.conns.PushBack(c)
	q.waiting++
}

// leave removes a connection. Its line goes to the end of the turns: another request of the address may have room, or find that it
// has none.
func (q *queue) leave(c *Conn) {
	l := c.line
	l.conns.Remove(c.place)
	c.line, c.place = nil, nil
	q.waiting--
	q.park(l)
	if l.conns.Len() == 0 {
		delete(q.lines[l.of], l.from)
	} else {
		q.freed(l.of, l.from)
	}
}

// park takes a line out of the turns, until its address has freed room.
func (q *queue) park(l *line) {
	if l.turn != nil {
		q.turns[l.of].Remove(l.turn)
		l.turn = nil
	}
}

// freed puts the line of an address back into the turns.
func (q *queue) freed(of class, from netip.Addr) {
	if l := q.lines[of][from]; l != nil && l.turn == nil {
		l.turn = q.turns[of].PushBack(l)
	}
}
