package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/pilotlight/pilotlight/agent/identity"
)

// notifier reports the agent's state to a service manager, by the protocol of systemd's sd_notify(3). It does nothing
// if no manager has requested reports.
type notifier struct {
	socket   string        // of datagrams; @name is abstract
	watchdog time.Duration // how long the manager waits for WATCHDOG=1, 0 for ever
	log      *slog.Logger
}

// notifyTimeout bounds the sending of a message, since the supervisor's loop waits for it.
const notifyTimeout = 100 * time.Millisecond

// newNotifier reads from the environment which reports a service manager requests from process pid.
func newNotifier(env identity.Environment, pid int, log *slog.Logger) notifier {
	n := notifier{socket: env["NOTIFY_SOCKET"], log: log}
	microseconds, err := strconv.ParseInt(env["WATCHDOG_USEC"], 10, 64)
	if of := env["WATCHDOG_PID"]; err == nil && n.socket != "" && (of == "" || of == strconv.Itoa(pid)) {
		n.watchdog = time.Duration(microseconds) * time.Microsecond
	}
	return n
}

// notify sends assignments such as READY=1, a line each.
func (n notifier) notify(state string) {
	if n.socket == "" {
		return
	}
	if err := n.send(state); err != nil {
		n.log.Warn("service manager not notified", "state", state, "err", err)
	}
}

func (n notifier) send(state string) error {
	conn, err := net.DialTimeout("unixgram", n.socket, notifyTimeout)
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET %s: %w", n.socket, err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(notifyTimeout)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return err
}

// live sends the watchdog message at once, since the image before may have sent its last one long ago, and then twice in the time for which
// the manager waits for one, until ctx ends. Before each message it calls alive, with the time until the next one as its limit, and sends
// none if alive fails.
func (n notifier) live(ctx context.Context, alive func(context.Context) error) {
	if n.watchdog <= 0 {
		return
	}
	ticker := time.NewTicker(n.watchdog / 2)
	defer ticker.Stop()
	for {
		if n.answers(ctx, alive) {
			n.notify("WATCHDOG=1")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (n notifier) answers(ctx context.Context, alive func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, n.watchdog/2)
	defer cancel()
	err := alive(ctx)
	if err != nil {
		n.log.Error("service manager not reached", "err", err)
	}
	return err == nil
}
