package agent

import (
	"context"
	"log/slog"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestDrain: out of service without an end, and back.
func TestDrain(t *testing.T) {
	const s = time.Second
	until := origin.Add(12*s + time.Minute + parentGrace)
	drained := func(more ...step) []step {
		return serving(append([]step{{s, commanded{Drain}, []action{drainInbound{0, false}}}}, more...)...)
	}
	for _, test := range []struct {
		name    string
		steps   []step
		drained bool // in the end
	}{
		{"drains at once, and once", drained(step{2 * s, commanded{Drain}, nil}), true},
		{"nothing asked changes nothing", serving(step{s, commanded{Nothing}, nil}), false},
		{"resume without a drain", serving(step{s, commanded{Resume}, nil}), false},
		{"drained before the first epoch is live", []step{
			{0, configured{a}, []action{start{first(a)}}},
			{0, commanded{Drain}, nil},
			{s, live{0}, []action{drainInbound{0, false}}},
		}, true},
		{"drained while nothing serves", []step{{0, configured{a}, []action{start{first(a)}}}, {0, commanded{Drain}, nil}}, true},
		{"an epoch that replaces a crashed one is drained as well", drained(
			step{2 * s, exited{0, crash}, []action{start{launch(0, 1, 0, a)}}},
			step{3 * s, live{0}, []action{drainInbound{0, false}}},
		), true},
		{"so is a newcomer", drained(
			step{10 * s, configured{b}, nil},
			step{11 * s, tick{}, []action{check{b}}},
			step{11 * s, checked{b, true, ""}, []action{start{launch(1, 0, 1, b)}}},
			step{12 * s, live{1}, []action{drainInbound{1, false}, await{0}}},
		), true},
		{"drained in the overlap: the serving epoch at once, the next one when it serves", overlap(
			step{11 * s, commanded{Drain}, []action{drainInbound{0, false}}},
			step{12 * s, live{1}, []action{drainInbound{1, false}, await{0}}},
		), true},
		{"drained when the newcomer serves: its parent drains already", overlap(
			step{12 * s, live{1}, []action{await{0}}},
			step{12 * s, commanded{Drain}, []action{drainInbound{1, false}}},
			step{13 * s, exited{0, killed}, []action{rescue{launch(0, 0, 0, a), until}}},
		), true},
		{"resumed: ready again only when an epoch serves that was not drained", drained(
			step{10 * s, commanded{Resume}, nil},
			step{11 * s, tick{}, []action{check{a}}},
			step{11 * s, checked{a, true, ""}, []action{start{launch(1, 0, 1, a)}}},
		), true},
		{"and then it is", drained(
			step{10 * s, commanded{Resume}, nil},
			step{11 * s, tick{}, []action{check{a}}},
			step{11 * s, checked{a, true, ""}, []action{start{launch(1, 0, 1, a)}}},
			step{12 * s, live{1}, []action{await{0}}},
		), false},
		{"resumed while a newcomer starts: it is enough", overlap(
			step{11 * s, commanded{Drain}, []action{drainInbound{0, false}}},
			step{11 * s, commanded{Resume}, nil},
			step{12 * s, live{1}, []action{await{0}}},
		), false},
		{"resumed, and the crash does it", drained(
			step{2 * s, commanded{Resume}, nil},
			step{2 * s, exited{0, crash}, []action{start{launch(0, 1, 0, a)}}},
		), false},
		{"a change and its undoing do not cancel the resume", drained(
			step{10 * s, commanded{Resume}, nil},
			step{10 * s, configured{b}, nil},
			step{10 * s, configured{a}, nil},
			step{11 * s, tick{}, []action{check{a}}},
		), true},
		{"resumed in vain: refused, and asked again", drained(
			step{10 * s, commanded{Resume}, nil},
			step{11 * s, tick{}, []action{check{a}}},
			step{11 * s, checked{a, true, "no room"}, nil},
			step{12 * s, commanded{Resume}, nil},
			step{13 * s, tick{}, []action{check{a}}},
		), true},
		{"drained while it resumes", drained(
			step{10 * s, commanded{Resume}, nil},
			step{10 * s, commanded{Drain}, nil},
			step{11 * s, tick{}, []action{check{a}}},
			step{11 * s, checked{a, true, ""}, []action{start{launch(1, 0, 1, a)}}},
			step{12 * s, live{1}, []action{drainInbound{1, false}, await{0}}},
		), true},
		{"a stop after it finishes the work as any", drained(
			step{10 * s, terminate{}, []action{drainInbound{0, true}}},
			step{11 * s, idle{0}, []action{signal{0, syscall.SIGTERM}}},
		), true},
		{"a stop takes no commands", serving(step{s, terminate{}, []action{drainInbound{0, true}}}, step{2 * s, commanded{Drain}, nil}), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := run(t, test.steps)
			if got := s.status(&history{}, settings).Drained; got != test.drained {
				t.Errorf("drained: %v, want %v", got, test.drained)
			}
		})
	}
}

// Taken is closed after Observe has received the change, that of a drain once Envoy has answered; a loop that has ended receives no Ask.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		askCh, configCh := make(chan Ask), make(chan Config, 1)
		configCh <- a
		var last Status
		agent := &Agent{
			Settings: settings, ConfigCh: configCh, AskCh: askCh, Log: slog.New(slog.DiscardHandler),
			Proxy:   &fakeProxy{script: func(int, Launch) life { return life{liveAfter: time.Second, drainAfter: 700 * time.Millisecond} }, began: time.Now()},
			Observe: func(s Status, _ []Event) { last = s },
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- agent.Run(ctx) }()
		synctest.Wait()
		<-time.After(2 * time.Second)
		drained, again, asked := make(chan struct{}), make(chan struct{}), time.Now()
		askCh <- Ask{Drain, drained}
		askCh <- Ask{Drain, again}
		taken := make(chan struct{})
		askCh <- Ask{Nothing, taken}
		<-taken
		if took := time.Since(asked); took > 0 {
			t.Errorf("next to a drain a question takes %s", took)
		}
		<-drained
		<-again
		if took := time.Since(asked); took != 700*time.Millisecond {
			t.Errorf("the drain is taken after %s, want it when Envoy has answered", took)
		}
		if !last.Drained || last.Counts[Drained] != 1 {
			t.Errorf("status %+v, want it drained", last)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		select {
		case askCh <- Ask{}:
			t.Error("a loop that has ended takes an ask")
		default:
		}
	})
}
