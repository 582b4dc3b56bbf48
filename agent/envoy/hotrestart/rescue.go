package hotrestart

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"regexp"
	"time"

	"github.com/pilotlight/pilotlight/agent/frame"
)

// Envoy's hot-restart messages: datagrams, each eight bytes of big-endian length and a HotRestartMessage
// (hot_restart.proto, hot_restarting_base.cc).
const (
	drainListeners = "\x0a\x02\x22\x00" // request 4: no reply
	terminate      = "\x0a\x02\x2a\x00" // request 5: no reply; the parent sends itself SIGTERM

	noSocket = "\x12\x0d\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" // reply 1: the descriptor is -1, so the child binds a socket of its own
	noStats  = "\x12\x02\x1a\x00"                                             // reply 3, empty
)

// The requests that a child sends to its parent, by their number in HotRestartMessage.Request.
const (
	passListenSocket = 1 // for each new listener, at any time until Terminate
	shutdownAdmin    = 2 // before the child opens its own admin
	askStats         = 3 // every five seconds, unless --skip-hot-restart-parent-stats
	terminateParent  = 5
)

// adminIsShut is reply 2. A child whose parent does not say that listeners reuse ports by default binds them without SO_REUSEPORT, and the next
// side-by-side handover cannot bind. The child reports the start of its family as its own.
func adminIsShut(began time.Time) string {
	reply := binary.AppendUvarint([]byte{0x08}, uint64(began.Unix()))
	reply = append(reply, 0x10, 1)
	return string(frame.Append(nil, 2, frame.Append(nil, 2, reply)))
}

// request returns the number of a request, by its datagram; 0 for anything else.
func request(datagram []byte) (number int) {
	if len(datagram) < 8 {
		return 0
	}
	_ = frame.Fields(datagram[8:], func(field int, value []byte) error {
		if field != 1 {
			return nil
		}
		return frame.Fields(value, func(field int, _ []byte) error {
			number = field
			return nil
		})
	})
	return number
}

// DrainListeners makes an epoch whose admin is closed stop accepting, and close each connection with its next answer.
// It is the message that a newcomer sends when its workers run.
func (s Sockets) DrainListeners(epoch int) error { return s.send(epoch, drainListeners) }

// Terminate ends an epoch as SIGTERM does; a stopped epoch receives the message when it continues.
//
// A newcomer sends the same message when its parent-shutdown time is over or when it terminates. If the parent has exited
// by then, and no Rescue is bound, the newcomer hangs for 10 s and aborts.
func (s Sockets) Terminate(epoch int) error { return s.send(epoch, terminate) }

// tellTimeout bounds the wait for room in the queue (net.unix.max_dgram_qlen) of an epoch that does not read.
const tellTimeout = time.Second

// send sends a message that has no reply. Its socket has no name, so that it never occupies the name of a real child's
// socket: Envoy does not read the sender's address (measured on 1.40, with and without a living child).
func (s Sockets) send(epoch int, message string) error {
	conn, err := s.Dial("parent", epoch)
	if err != nil {
		return fmt.Errorf("send to epoch %d of base-id %d: %w", epoch, s.BaseID, err)
	}
	defer conn.Close()
	conn.SetWriteDeadline(time.Now().Add(tellTimeout))
	if _, err := conn.Write(framed(message)); err != nil {
		return fmt.Errorf("send to epoch %d of base-id %d: %w", epoch, s.BaseID, err)
	}
	return nil
}

func (s Sockets) address(role string, epoch int) *net.UnixAddr {
	return &net.UnixAddr{Net: "unixgram", Name: s.Path(role, epoch)}
}

func (s Sockets) Dial(role string, epoch int) (*net.UnixConn, error) {
	return net.DialUnix("unixgram", nil, s.address(role, epoch))
}

func framed(message string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(len(message))), message...)
}

// Rescue answers a newcomer's requests in place of its parent, which has died or has a shield. Without a parent the newcomer hangs for 10 s and
// aborts; without an answer its main thread waits without limit, for example when it adds a listener (measured on 1.40).
type Rescue struct {
	conn  *net.UnixConn
	child *net.UnixAddr
	Epoch int

	Connected *net.UnixConn // to the child, whatever has become of its path; nil if it was not dialed in time
	began     time.Time     // the family
}

// BindParent binds the socket path of a parent that has been reaped; it returns an error if the parent still runs. The
// child is safe once BindParent has returned. The caller calls Answer or Close.
func BindParent(s Sockets, epoch int) (*Rescue, error) {
	if parent, err := s.Dial("parent", epoch); err == nil {
		parent.Close()
		return nil, fmt.Errorf("rescue the child of epoch %d of base-id %d: the parent lives", epoch, s.BaseID)
	}
	return BindOver(s, epoch)
}

// BindOver is BindParent, also while the parent runs: from then on nobody can send it a message.
func BindOver(s Sockets, epoch int) (*Rescue, error) {
	conn, err := s.listen("parent", epoch)
	if err != nil {
		return nil, fmt.Errorf("rescue the child of epoch %d of base-id %d: %w", epoch, s.BaseID, err)
	}
	return &Rescue{conn: conn, child: s.address("child", epoch+1), Epoch: epoch, began: s.Began}, nil
}

// Answer answers until a Terminate arrives, for which it returns nil, and closes the socket in any case. End ctx only after the child has
// exited: the child sends its Terminate also when it is terminated early.
func (r *Rescue) Answer(ctx context.Context) error {
	defer r.Close()
	stop := context.AfterFunc(ctx, func() { r.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		number, err := r.answer()
		if err != nil {
			return fmt.Errorf("await Terminate for epoch %d: %w", r.Epoch, cmp.Or(ctx.Err(), err))
		}
		if number == terminateParent {
			return nil
		}
	}
}

// Stand answers until Close, also after a Terminate.
func (r *Rescue) Stand() {
	for err := error(nil); err == nil; {
		_, err = r.answer()
	}
}

// answer answers the next request, and returns its number.
func (r *Rescue) answer() (number int, err error) {
	buffer := make([]byte, 4096) // Envoy's largest piece
	n, _, err := r.conn.ReadFromUnix(buffer)
	if err != nil {
		return 0, err
	}
	number = request(buffer[:n])
	switch number {
	case passListenSocket:
		r.reply(noSocket)
	case shutdownAdmin:
		r.reply(adminIsShut(r.began))
	case askStats:
		r.reply(noStats)
	}
	return number, nil
}

// reply sends a reply. It must be of the type that the child requested: Envoy 1.40 aborts on the reply that its message was not recognized.
func (r *Rescue) reply(message string) {
	if r.Connected != nil {
		r.Connected.SetWriteDeadline(time.Now().Add(tellTimeout))
		r.Connected.Write(framed(message)) // a child that has exited needs no reply
		return
	}
	r.conn.SetWriteDeadline(time.Now().Add(tellTimeout))
	r.conn.WriteToUnix(framed(message), r.child) // likewise
}

// Close closes the socket.
func (r *Rescue) Close() error { return r.conn.Close() }

// VersionFlag makes Envoy print the version of its hot-restart protocol, and exit.
const VersionFlag = "--hot-restart-version"

// ParseVersion parses the answer of Envoy 1.40, "11.104": the version of its hot-restart protocol and the size of its
// shared memory (hot_restart_impl.cc). The pattern is compiled on each call, before handovers and never at a start.
func ParseVersion(answer []string) (version string, ok bool) {
	if len(answer) == 1 {
		if match := regexp.MustCompile(`^(\d+\.\d+)$`).FindStringSubmatch(answer[0]); match != nil {
			return match[1], true
		}
	}
	return "", false
}
