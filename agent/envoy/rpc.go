package envoy

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"time"
)

// Envoy's hot-restart messages: datagrams, each eight bytes of big-endian length and a HotRestartMessage
// (hot_restart.proto, hot_restarting_base.cc).
const (
	drainListeners = "\x0a\x02\x22\x00" // request 4: no reply
	terminate      = "\x0a\x02\x2a\x00" // request 5: no reply; the parent sends itself SIGTERM
	askStats       = "\x0a\x02\x1a\x00" // request 3, unless --skip-hot-restart-parent-stats
	noStats        = "\x12\x02\x1a\x00" // reply 3, empty
)

// DrainListeners makes an epoch that has lost its admin stop accepting, and end its connections as they answer.
// Envoy does so with what a newcomer says when its workers run.
func (s sockets) DrainListeners(epoch int) error { return s.send(epoch, drainListeners) }

// Terminate ends an epoch as SIGTERM does; an epoch that is frozen hears it when it thaws.
//
// A newcomer says it too, when its parent-shutdown time is over or when it is ended: if the parent is gone by then,
// and no Rescue is bound, the newcomer freezes for 10 s and aborts.
func (s sockets) Terminate(epoch int) error { return s.send(epoch, terminate) }

// tellTimeout bounds the wait for room in the queue (net.unix.max_dgram_qlen) of an epoch that does not read.
const tellTimeout = time.Second

// send sends a message that has no reply. It has no name of its own, so that it is never in the way of a real child
// whose name it would be: Envoy does not look at the sender's (measured on 1.40, with and without a living child).
func (s sockets) send(epoch int, message string) error {
	conn, err := s.dial("parent", epoch)
	if err != nil {
		return fmt.Errorf("send to epoch %d of base-id %d: %w", epoch, s.family, err)
	}
	defer conn.Close()
	conn.SetWriteDeadline(time.Now().Add(tellTimeout))
	if _, err := conn.Write(frame(message)); err != nil {
		return fmt.Errorf("send to epoch %d of base-id %d: %w", epoch, s.family, err)
	}
	return nil
}

func (s sockets) address(role string, epoch int) *net.UnixAddr {
	return &net.UnixAddr{Net: "unixgram", Name: s.path(role, epoch)}
}

func (s sockets) dial(role string, epoch int) (*net.UnixConn, error) {
	return net.DialUnix("unixgram", nil, s.address(role, epoch))
}

func frame(message string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(len(message))), message...)
}

// Rescue stands in for a parent that died in the overlap. Its child would find no socket to send Terminate to, freeze
// for 10 s and abort (measured on 1.40).
type Rescue struct {
	conn  *net.UnixConn
	child *net.UnixAddr
	epoch int
}

// bindParent takes the socket of a parent that has been reaped; that of a living one is an error. From its return on
// the child is safe. The caller swallows or closes.
func bindParent(s sockets, epoch int) (*Rescue, error) {
	if parent, err := s.dial("parent", epoch); err == nil {
		parent.Close()
		return nil, fmt.Errorf("rescue the child of epoch %d of base-id %d: the parent lives", epoch, s.family)
	}
	conn, err := s.listen("parent", epoch)
	if err != nil {
		return nil, fmt.Errorf("rescue the child of epoch %d of base-id %d: %w", epoch, s.family, err)
	}
	return &Rescue{conn: conn, child: s.address("child", epoch+1), epoch: epoch}, nil
}

// Swallow waits for the one Terminate, returns nil when it came, and closes in any case. End ctx only when the child is gone,
// for it sends its Terminate also when it is ended early.
func (r *Rescue) Swallow(ctx context.Context) error {
	defer r.Close()
	stop := context.AfterFunc(ctx, func() { r.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buffer := make([]byte, 4096) // Envoy's largest piece
	for {
		n, _, err := r.conn.ReadFromUnix(buffer)
		if err != nil {
			return fmt.Errorf("await Terminate for epoch %d: %w", r.epoch, cmp.Or(ctx.Err(), err))
		}
		switch string(buffer[:n]) {
		case string(frame(terminate)):
			return nil
		case string(frame(askStats)):
			r.answer(noStats)
		}
	}
}

// answer keeps the child's main thread from waiting for ever. The reply must be of the kind that was asked for: told
// that its message was not recognized, Envoy 1.40 aborts.
func (r *Rescue) answer(message string) {
	r.conn.SetWriteDeadline(time.Now().Add(tellTimeout))
	r.conn.WriteToUnix(frame(message), r.child) // a child that has gone needs none
}

// Close gives the socket back.
func (r *Rescue) Close() error { return r.conn.Close() }
