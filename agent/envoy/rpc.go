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

// DrainListeners makes an epoch whose admin is closed stop accepting, and close each connection with its next answer.
// It is the message that a newcomer sends when its workers run.
func (s sockets) DrainListeners(epoch int) error { return s.send(epoch, drainListeners) }

// Terminate ends an epoch as SIGTERM does; a stopped epoch receives the message when it continues.
//
// A newcomer sends the same message when its parent-shutdown time is over or when it terminates. If the parent has exited
// by then, and no Rescue is bound, the newcomer hangs for 10 s and aborts.
func (s sockets) Terminate(epoch int) error { return s.send(epoch, terminate) }

// tellTimeout bounds the wait for room in the queue (net.unix.max_dgram_qlen) of an epoch that does not read.
const tellTimeout = time.Second

// send sends a message that has no reply. Its socket has no name, so that it never occupies the name of a real child's
// socket: Envoy does not read the sender's address (measured on 1.40, with and without a living child).
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

// Rescue receives messages in place of a parent that died before its child ended it. Without it, the child would find
// no socket for its Terminate, hang for 10 s and abort (measured on 1.40).
type Rescue struct {
	conn  *net.UnixConn
	child *net.UnixAddr
	epoch int
}

// bindParent binds the socket path of a parent that has been reaped; it returns an error if the parent still runs. The
// child is safe once bindParent has returned. The caller calls Swallow or Close.
func bindParent(s sockets, epoch int) (*Rescue, error) {
	if parent, err := s.dial("parent", epoch); err == nil {
		parent.Close()
		return nil, fmt.Errorf("rescue the child of epoch %d of base-id %d: the parent lives", epoch, s.family)
	}
	return bindOver(s, epoch)
}

// bindOver is bindParent, also while the parent runs: from then on nobody can send it a message.
func bindOver(s sockets, epoch int) (*Rescue, error) {
	conn, err := s.listen("parent", epoch)
	if err != nil {
		return nil, fmt.Errorf("rescue the child of epoch %d of base-id %d: %w", epoch, s.family, err)
	}
	return &Rescue{conn: conn, child: s.address("child", epoch+1), epoch: epoch}, nil
}

// Swallow waits for one Terminate, returns nil once it has arrived, and closes the socket in any case. End ctx only
// after the child has exited: the child sends its Terminate also when it is terminated early.
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

// answer sends a reply, so that the child's main thread does not wait for ever. The reply must be of the type that the
// child requested: Envoy 1.40 aborts on the reply that its message was not recognized.
func (r *Rescue) answer(message string) {
	r.conn.SetWriteDeadline(time.Now().Add(tellTimeout))
	r.conn.WriteToUnix(frame(message), r.child) // a child that has exited needs no reply
}

// Close closes the socket.
func (r *Rescue) Close() error { return r.conn.Close() }
