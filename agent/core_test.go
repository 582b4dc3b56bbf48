package agent

import (
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	origin   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	settings = Settings{RestartBudget: 3, BackOffBase: 200 * time.Millisecond, TerminationDrain: 5 * time.Second}
	crash    = Exit{Code: -1, Signal: syscall.SIGSEGV}
)

// step is an event at a time after the origin, and what it shall cause.
type step struct {
	at    time.Duration
	event any
	want  []any
}

// TestNext has one row for each behaviour; a row that guards against a bug known of pilot-agent says so.
func TestNext(t *testing.T) {
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"stops when asked", []step{
			{0, begin{}, []any{start{0}}},
			{time.Second, live{0}, nil},
			{time.Minute, terminate{}, []any{signal{0, syscall.SIGTERM}}},
			{time.Minute, terminate{}, nil},
			{time.Minute, exited{0, Exit{}}, []any{finish{}}},
		}},
		{"stops before it has started anything", []step{
			{0, terminate{}, []any{finish{}}},
		}},
		{"stops while it waits to retry", []step{
			{0, begin{}, []any{start{0}}},
			{0, exited{0, crash}, nil},
			{0, terminate{}, []any{finish{}}},
		}},
		{"kills what outstays its drain, and waits for its end (pilot-agent: kill without wait)", []step{
			{0, begin{}, []any{start{0}}},
			{0, terminate{}, []any{signal{0, syscall.SIGTERM}}},
			{4 * time.Second, tick{}, nil},
			{5 * time.Second, tick{}, []any{signal{0, syscall.SIGKILL}}},
			{6 * time.Second, tick{}, nil},
			{7 * time.Second, exited{0, Exit{Code: -1, Signal: syscall.SIGKILL}}, []any{finish{}}},
		}},
		{"replaces at once what had served for a while", []step{
			{0, begin{}, []any{start{0}}},
			{0, live{0}, nil},
			{time.Minute, exited{0, crash}, []any{start{0}}},
		}},
		{"a clean exit that nobody asked for is a failure (pilot-agent: clean exit wedges)", []step{
			{0, begin{}, []any{start{0}}},
			{0, live{0}, nil},
			{time.Minute, exited{0, Exit{Code: 0}}, []any{start{0}}},
		}},
		{"a dead epoch leaves no gap in the numbers (pilot-agent: growing epochs with gaps)", []step{
			{0, begin{}, []any{start{0}}},
			{0, live{0}, nil},
			{1 * time.Minute, exited{0, crash}, []any{start{0}}},
			{1 * time.Minute, live{0}, nil},
			{2 * time.Minute, exited{0, crash}, []any{start{0}}},
		}},
		{"gives up when the budget is spent", []step{
			{0, begin{}, []any{start{0}}},
			{0, exited{0, crash}, nil},
			{1 * time.Second, tick{}, []any{start{0}}},
			{1 * time.Second, exited{0, crash}, nil},
			{2 * time.Second, tick{}, []any{start{0}}},
			{2 * time.Second, exited{0, crash}, nil},
			{4 * time.Second, tick{}, []any{start{0}}},
			{4 * time.Second, exited{0, crash}, []any{finish{&GaveUp{Exit: crash, Attempts: 4}}}},
		}},
		{"the budget heals after a stable period (pilot-agent: budget that never heals)", []step{
			{0, begin{}, []any{start{0}}},
			{0, live{0}, nil},
			{1 * time.Minute, exited{0, crash}, []any{start{0}}},
			{1 * time.Minute, live{0}, nil},
			{2 * time.Minute, exited{0, crash}, []any{start{0}}},
			{2 * time.Minute, live{0}, nil},
			{3 * time.Minute, exited{0, crash}, []any{start{0}}},
			{3 * time.Minute, live{0}, nil},
			{8 * time.Minute, exited{0, crash}, []any{start{0}}},
		}},
		{"a refusal of its configuration is worth one more try", []step{
			{0, begin{}, []any{start{0}}},
			{0, exited{0, Exit{Code: 1, Reason: "no such field"}}, nil},
			{time.Second, tick{}, []any{start{0}}},
			{time.Second, exited{0, Exit{Code: 1, Reason: "no such field"}}, []any{
				finish{&GaveUp{Exit: Exit{Code: 1, Reason: "no such field"}, Attempts: 2, Refused: true}},
			}},
		}},
		{"an exit with 1 by one that has served is no refusal", []step{
			{0, begin{}, []any{start{0}}},
			{0, live{0}, nil},
			{time.Minute, exited{0, Exit{Code: 1}}, []any{start{0}}},
			{time.Minute, exited{0, Exit{Code: 1}}, nil},
			{2 * time.Minute, tick{}, []any{start{0}}},
		}},
		{"an exit of an epoch that it does not know changes nothing", []step{
			{0, begin{}, []any{start{0}}},
			{0, exited{7, crash}, nil},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s state
			for i, step := range test.steps {
				var got []any
				s, got = settings.next(s, step.event, origin.Add(step.at))
				if diff := cmp.Diff(step.want, got, cmp.AllowUnexported(start{}, signal{}, finish{})); diff != "" {
					t.Fatalf("step %d, %T at %s (-want +got):\n%s", i, step.event, step.at, diff)
				}
			}
		})
	}
}

func TestBackOffGrowsAndIsBounded(t *testing.T) {
	for seed := range uint64(100) {
		previous := time.Duration(0)
		for attempt := range 100 {
			delay, _ := settings.backOff(attempt, seed)
			if delay < previous || delay > backOffCap {
				t.Fatalf("seed %d, attempt %d: delay %s after %s, want growing up to %s", seed, attempt, delay, previous, backOffCap)
			}
			previous = delay
		}
	}
	first, second := delays(1), delays(2)
	if cmp.Equal(first, second) {
		t.Errorf("two seeds give the same delays %v", first)
	}
}

func delays(seed uint64) (out []time.Duration) {
	for attempt := range 5 {
		var delay time.Duration
		delay, seed = settings.backOff(attempt, seed)
		out = append(out, delay)
	}
	return out
}

// FuzzNext throws any sequence of events at the core and holds it to what must always be true.
func FuzzNext(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 2, 2})
	f.Add([]byte{2, 2, 2, 2, 2, 2, 2, 2, 2})
	f.Fuzz(func(t *testing.T, script []byte) {
		var (
			s       state
			now     = origin
			alive   = map[int]bool{}
			ended   *finish
			stopped bool
		)
		perform := func(actions []any) {
			for _, action := range actions {
				switch a := action.(type) {
				case start:
					if stopped || ended != nil {
						t.Fatalf("epoch %d started after the stop", a.epoch)
					}
					if a.epoch != len(alive) || alive[a.epoch] {
						t.Fatalf("epoch %d started while %v live: want newest + 1", a.epoch, alive)
					}
					alive[a.epoch] = true
				case signal:
					if !alive[a.epoch] {
						t.Fatalf("signal %s to epoch %d, which does not live", a.signal, a.epoch)
					}
				case finish:
					if ended != nil || len(alive) > 0 {
						t.Fatalf("finished with %v alive, before: %v", alive, ended)
					}
					ended = &a
				}
			}
		}
		feed := func(event any) {
			var actions []any
			s, actions = settings.next(s, event, now)
			perform(actions)
			if s.failures < 0 || s.failures > settings.RestartBudget+1 {
				t.Fatalf("%d failures of a budget of %d", s.failures, settings.RestartBudget)
			}
			if ended == nil && len(alive) == 0 && s.wake().IsZero() {
				t.Fatalf("nothing lives and nothing is due: stuck after %T", event)
			}
		}
		feed(begin{})
		for _, b := range script {
			if ended != nil {
				return
			}
			now = now.Add(time.Duration(b>>3) * 100 * time.Millisecond)
			switch b & 7 {
			case 0, 1:
				feed(live{0})
			case 2, 3, 4:
				if alive[0] {
					delete(alive, 0)
					feed(exited{0, Exit{Code: int(b & 1)}})
				}
			case 5, 6:
				feed(tick{})
			case 7:
				stopped = true
				feed(terminate{})
			}
		}
	})
}
