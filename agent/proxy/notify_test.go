package proxy

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/identity"
)

func TestNotifierReadsWhatTheManagerAsks(t *testing.T) {
	for _, test := range []struct {
		name     string
		env      identity.Environment
		socket   string
		watchdog time.Duration
	}{
		{"no manager", identity.Environment{}, "", 0},
		{"readiness", identity.Environment{"NOTIFY_SOCKET": "/run/n"}, "/run/n", 0},
		{"watchdog", identity.Environment{"NOTIFY_SOCKET": "@n", "WATCHDOG_USEC": "30000000"}, "@n", 30 * time.Second},
		{
			"watchdog of ours",
			identity.Environment{"NOTIFY_SOCKET": "@n", "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "7"},
			"@n",
			time.Millisecond,
		},
		{"watchdog of another", identity.Environment{"NOTIFY_SOCKET": "@n", "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "8"}, "@n", 0},
		{"not a number", identity.Environment{"NOTIFY_SOCKET": "@n", "WATCHDOG_USEC": "soon"}, "@n", 0},
		{"a watchdog that cannot be told", identity.Environment{"WATCHDOG_USEC": "1000"}, "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newNotifier(test.env, 7, slog.New(slog.DiscardHandler))
			if n.socket != test.socket || n.watchdog != test.watchdog {
				t.Errorf("socket %q, watchdog %s; want %q, %s", n.socket, n.watchdog, test.socket, test.watchdog)
			}
		})
	}
}

func TestNotifierTells(t *testing.T) {
	for _, socket := range []string{
		filepath.Join(t.TempDir(), "n"),
		"@pilotlight-" + filepath.Base(t.TempDir()) + t.Name(),
	} {
		manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer manager.Close()
		n := notifier{socket: socket, watchdog: 2 * time.Millisecond, log: slog.New(slog.DiscardHandler)}
		n.notify("READY=1\nSTATUS=Envoy serves")
		expect(t, manager, "READY=1\nSTATUS=Envoy serves")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			n.live(ctx, func(context.Context) error { return nil })
			close(done)
		}()
		expect(t, manager, "WATCHDOG=1")
		expect(t, manager, "WATCHDOG=1")
		cancel()
		<-done
	}
}

// An image sends its first WATCHDOG=1 at once: the one before may have sent its last one long ago.
func TestNotifierTellsAtOnce(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "n")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	n := notifier{socket: socket, watchdog: time.Hour, log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		n.live(ctx, func(context.Context) error { return nil })
		close(done)
	}()
	expect(t, manager, "WATCHDOG=1")
	cancel()
	<-done
}

// A supervisor whose loop is stuck sends no WATCHDOG=1, though its process runs.
func TestNotifierIsSilentForAStuckLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		n := notifier{socket: "/nowhere", watchdog: 2 * time.Second, log: slog.New(slog.NewTextHandler(told{t}, nil))}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		n.live(ctx, func(ctx context.Context) error {
			asked++
			return agent.Tell(ctx, nil, agent.Nothing) // no loop receives from a nil channel
		})
		if asked < 4 {
			t.Errorf("asked %d times in 10 s, want each second or two", asked)
		}
	})
}

// told is a log writer that fails the test if the notifier logs an attempt to send WATCHDOG=1: there is no socket.
type told struct{ t *testing.T }

func (t told) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "WATCHDOG=1") {
		t.t.Errorf("told: %s", line)
	}
	return len(line), nil
}

func expect(t *testing.T, manager *net.UnixConn, want string) {
	t.Helper()
	if err := manager.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 200)
	if n, err := manager.Read(buffer); err != nil || string(buffer[:n]) != want {
		t.Errorf("the manager hears %q, %v; want %q", buffer[:n], err, want)
	}
}
