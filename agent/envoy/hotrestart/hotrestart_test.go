package hotrestart

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

func TestRealHotRestartChain(t *testing.T) {
	r := newRelatives(t)
	parent := r.start(0, oneSecond...)
	r.awaitLive(0)
	if err := r.BaseID.Sweep(); !errors.Is(err, ErrInUse) {
		t.Errorf("Sweep of a living family: %v, want ErrInUse", err)
	}
	for epoch := 1; epoch <= 3; epoch++ { // the fourth has the first one's sockets
		child := r.start(epoch, oneSecond...)
		r.awaitLive(epoch)
		r.ends(parent, 0)
		r.serves(epoch)
		parent = child
	}
	r.keepsOthersOut(3)
	parent.Signal(syscall.SIGTERM)
	r.ends(parent, 0)
	if err := r.BaseID.Sweep(); err != nil {
		t.Errorf("Sweep of a dead family: %v", err)
	}
}

// The mapping alone must protect the segment, since sockets of another network namespace are not visible.
func TestRealEnvoysSegmentIsSeenMapped(t *testing.T) {
	r := newRelatives(t)
	p := r.start(0)
	r.awaitLive(0)
	check := func(want bool) {
		t.Helper()
		file := open(t, r.BaseID.Segment())
		if got, err := mapped(file); got != want || err != nil {
			t.Errorf("mapped: %t, %v; want %t", got, err, want)
		}
	}
	check(true)
	p.Signal(syscall.SIGKILL)
	r.ends(p, -1)
	check(false)
}

func TestRealNewcomerKilledBeforeLive(t *testing.T) {
	r := newRelatives(t)
	parent := r.start(0)
	r.awaitLive(0)
	killed := r.startEndless(1)
	killed.Signal(syscall.SIGKILL)
	r.ends(killed, -1)
	r.serves(0)

	refused := r.start(1, oneSecond...)
	r.ends(refused, 1) // what the repair is for
	if log := refused.Log(); !strings.Contains(log, "previous envoy process is still initializing") {
		t.Errorf("Envoy said:\n%s", log)
	}
	if was, err := r.BaseID.ClearInitializing(); !was || err != nil {
		t.Fatalf("ClearInitializing: %t, %v; want true", was, err)
	}
	r.start(1, oneSecond...)
	r.awaitLive(1)
	r.ends(parent, 0)
	r.serves(1)
}

func TestRealParentKilledInTheOverlap(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
	}{
		{"the child asks nothing", oneSecond},
		{"the child asks for stats", []string{"--parent-shutdown-time-s", "2"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRelatives(t)
			child, rescue := orphan(r, test.args)
			standIn(t, rescue)
			r.awaitLive(1) // its main thread answers
			r.serves(1)

			r.start(2, oneSecond...)
			r.awaitLive(2)
			r.ends(child, 0)
			r.serves(2)
		})
	}
}

// A child that is terminated sends its Terminate early.
func TestRealRescuedChildEndsByTerm(t *testing.T) {
	r := newRelatives(t)
	child, rescue := orphan(r, []string{"--skip-hot-restart-parent-stats", "--parent-shutdown-time-s", "600"})
	child.Signal(syscall.SIGTERM)
	r.ends(child, 0)
	standIn(t, rescue)
}

// The fact that a shield depends on: as soon as a third Envoy starts, the second sends the first its message to terminate, once and to its
// path. With another socket there all three live.
func TestRealThirdBesideItsGrandparent(t *testing.T) {
	r := newRelatives(t)
	long := []string{"--skip-hot-restart-parent-stats", "--parent-shutdown-time-s", "600"}
	first := r.start(0, long...)
	r.awaitLive(0)
	r.start(1, long...)
	r.awaitLive(1)
	rescue, err := BindOver(r.Sockets, 0)
	must(t, err)
	r.start(2, long...)
	r.awaitLive(2)
	standIn(t, rescue)
	if !lab.Alive(first.Pid) {
		t.Error("the first Envoy has ended")
	}
}

// orphan kills a parent during the handover and binds a Rescue for it.
func orphan(r *relatives, childArgs []string) (child *lab.Process, rescue *Rescue) {
	r.t.Helper()
	parent := r.start(0)
	r.awaitLive(0)
	if _, err := BindParent(r.Sockets, 0); err == nil || !strings.Contains(err.Error(), "the parent lives") {
		r.t.Errorf("bindParent of a living parent: %v", err)
	}
	child = r.start(1, childArgs...)
	r.awaitLive(1)
	parent.Signal(syscall.SIGKILL)
	r.ends(parent, -1)
	rescue, err := BindParent(r.Sockets, 0)
	must(r.t, err)
	return child, rescue
}

func standIn(t *testing.T, rescue *Rescue) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	must(t, rescue.Answer(ctx))
}

func TestAnswerEndsWithItsContext(t *testing.T) {
	s := Sockets{Dir: t.TempDir(), Token: newToken(), BaseID: newBaseID(t)}
	for range 2 { // the name is free again
		rescue, err := BindParent(s, 4)
		must(t, err)
		if taken, err := s.BaseID.InUse(); !taken || err != nil {
			t.Errorf("a bound parent: taken %t, %v; want it seen", taken, err)
		}
		must(t, s.DrainListeners(1)) // epoch 4 has the name of epoch 1
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := rescue.Answer(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Answer: %v, want the deadline", err)
		}
		cancel()
	}
}

// Each request of Envoy's that waits for a reply gets one, of its own type.
func TestRescueAnswers(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	s := Sockets{Dir: t.TempDir(), Token: newToken(), BaseID: newBaseID(t), Began: began}
	rescue, err := BindParent(s, 4)
	must(t, err)
	child, err := s.listen("child", 5)
	must(t, err)
	defer child.Close()
	ended := make(chan error, 1)
	go func() { ended <- rescue.Answer(t.Context()) }()
	for _, tt := range []struct{ name, request, reply string }{
		{"PassListenSocket", "\x0a\x17\x0a\x15\x0a\x11tcp://127.0.0.1:9\x10\x01", noSocket},
		{"ShutdownAdmin", "\x0a\x02\x12\x00", "\x12\x0a\x12\x08\x08\x80\xe2\xcf\xaa\x06\x10\x01"},
		{"DrainListeners", drainListeners, ""},
		{"Stats", "\x0a\x02\x1a\x00", noStats},
		{"an unknown request", "\x0a\x02\x3a\x00", ""},
		{"half a message", "\x0a\x02\x1a", ""},
		{"nothing", "", ""},
		{"Stats again", "\x0a\x02\x1a\x00", noStats},
	} {
		must(t, s.send(4, tt.request))
		if tt.reply == "" {
			continue // the next reply is that of the next request
		}
		buffer := make([]byte, 4096)
		child.SetReadDeadline(time.Now().Add(patient))
		n, err := child.Read(buffer)
		must(t, err)
		if got := string(buffer[:n]); got != string(framed(tt.reply)) {
			t.Errorf("%s: reply %q, want %q", tt.name, got, framed(tt.reply))
		}
	}
	must(t, s.Terminate(4))
	must(t, <-ended)
}

// A parent that must not end does not hear its child's Terminate, and what the child asks next is answered.
func TestRescueOfAParentThatDrains(t *testing.T) {
	s := Sockets{Dir: t.TempDir(), Token: newToken(), BaseID: newBaseID(t)}
	rescue, err := BindOver(s, 0)
	must(t, err)
	child, err := s.listen("child", 1)
	must(t, err)
	defer child.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		rescue.Stand()
	}()
	must(t, s.Terminate(0))
	must(t, s.send(0, "\x0a\x02\x1a\x00"))
	child.SetReadDeadline(time.Now().Add(patient))
	buffer := make([]byte, 4096)
	n, err := child.Read(buffer)
	must(t, err)
	if got := string(buffer[:n]); got != string(framed(noStats)) {
		t.Errorf("reply %q, want %q", got, framed(noStats))
	}
	must(t, rescue.Close())
	<-ended
}

func TestRealParentWithoutAdminEndsByDatagrams(t *testing.T) {
	for _, test := range []struct {
		name  string
		stays bool // the newcomer, whose name a sender would have
	}{{"its newcomer is dead", false}, {"its newcomer lives", true}} {
		t.Run(test.name, func(t *testing.T) {
			r := newRelatives(t)
			parent := r.start(0)
			r.awaitLive(0)
			newcomer := r.startEndless(1)
			r.awaitAdminGone(0)
			if !test.stays {
				newcomer.Signal(syscall.SIGKILL)
				r.ends(newcomer, -1)
			}
			r.serves(0)
			if err := r.DrainListeners(0); err != nil {
				t.Fatal(err)
			}
			await(t, "the listener is closed", func() bool {
				conn, err := net.Dial("tcp", r.listener())
				if err == nil {
					conn.Close()
				}
				return errors.Is(err, syscall.ECONNREFUSED)
			})
			if err := r.Terminate(0); err != nil {
				t.Fatal(err)
			}
			r.ends(parent, 0)
			if err := r.Terminate(0); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("Terminate of nobody: %v, want connection refused", err)
			}
		})
	}
}
