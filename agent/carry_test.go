package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// carriedOver is a state as the next image reads it.
func carriedOver(t *testing.T, c Carried) Carried {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var out Carried
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// fill sets every field of a struct to a value that is not zero.
func fill(v reflect.Value, n *int64) {
	*n++
	if !v.CanSet() {
		v = reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
	}
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(origin.Add(time.Duration(*n) * time.Second)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.String:
		v.SetString(strings.Repeat("x", int(*n)))
	case reflect.Int, reflect.Int64:
		v.SetInt(*n)
	case reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Bool:
		v.SetBool(true)
	}
}

// Every field of the state is carried, except for those that are zero in a supervisor that may leave.
func TestTheWholeStateIsCarried(t *testing.T) {
	var s state
	n := int64(0)
	fill(reflect.ValueOf(&s).Elem(), &n)
	s.stopping, s.leaveBy, s.held, s.handover.again = stopping{}, time.Time{}, time.Time{}, false
	e := &s.epochs[0]
	e.draining, e.killed, e.late, e.deadline = false, false, false, time.Time{}
	e.awaitsDrain = false // what carries out Leave waits for the answer
	h := history{map[Note]int{Serving: 3}, []Event{{origin, Serving, 4, "x"}}}
	carried := carriedOver(t, s.carry(&h))
	exported := cmp.AllowUnexported(state{}, epoch{}, handover{}, refusal{}, stopping{}, history{})
	if diff := cmp.Diff(s, carried.state(origin.Add(time.Hour)), exported); diff != "" {
		t.Errorf("state (-left +taken over):\n%s", diff)
	}
	if diff := cmp.Diff(h, carried.history(), exported); diff != "" {
		t.Errorf("history (-left +taken over):\n%s", diff)
	}
}

// Where the clock is set back between two images, nothing has happened later than now, and nothing waits for longer: else an Envoy that
// ends would have served for less than nothing, and no third image would take that over.
func TestTheClockIsSetBack(t *testing.T) {
	at := func(seconds int) time.Time { return origin.Add(time.Duration(seconds) * time.Second) }
	s := state{
		epochs: []epoch{{startedAt: at(0), liveAt: at(1)}}, handover: handover{began: at(3), due: at(4)}, retryAt: at(5),
	}
	before := origin.Add(-time.Hour)
	got := carriedOver(t, s.carry(&history{})).state(before)
	want := state{
		epochs:   []epoch{{startedAt: before.Add(-3 * time.Second), liveAt: before.Add(-2 * time.Second)}},
		handover: handover{began: before, due: before.Add(time.Second)}, retryAt: before.Add(2 * time.Second),
	}
	exported := cmp.AllowUnexported(state{}, epoch{}, handover{}, refusal{}, stopping{})
	if diff := cmp.Diff(want, got, exported, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if waits := carriedOver(t, (state{epochs: []epoch{{startedAt: origin}}}).carry(&history{})).state(before).epochs[0]; !waits.liveAt.IsZero() {
		t.Errorf("an epoch that is not live is live at %s", waits.liveAt)
	}
}

func TestLeave(t *testing.T) {
	ask := commanded{Leave}
	leaves := []action{leave{}}
	at := func(seconds int) time.Duration { return time.Duration(seconds) * time.Second }
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"at once while one epoch serves", serving(step{at(1), ask, leaves})},
		{"not before the first epoch is live", []step{
			{0, ask, nil}, {0, configured{a}, []action{start{first(a)}}}, {at(1), live{0}, leaves},
		}},
		{"with a change that waits", serving(step{at(10), configured{b}, nil}, step{at(10), ask, leaves})},
		{"not while a change is checked", serving(
			step{at(10), configured{b}, nil}, step{at(11), tick{}, []action{check{b}}}, step{at(11), ask, nil},
			step{at(12), checked{b, true, "no"}, leaves},
		)},
		{"not before the handover is over, and nobody is stood in for", overlap(
			step{at(12), ask, nil}, step{at(13), live{1}, []action{await{0}}},
			step{at(20), exited{0, Exit{}}, []action{rescue{first(a), origin.Add(at(13 + 62))}}},
			step{at(74), tick{}, nil}, step{at(75), tick{}, leaves},
		)},
		{"while Envoy is away", []step{
			{0, configured{a}, []action{start{first(a)}}}, {0, ask, nil}, {0, exited{0, crash}, leaves},
		}},
		{"never after a stop", serving(
			step{at(1), terminate{}, []action{drainInbound{0, true}}}, step{at(2), ask, nil},
		)},
		{"a stop ends the wait", overlap(
			step{at(12), ask, nil}, step{at(13), live{1}, []action{await{0}}},
			step{at(14), terminate{}, []action{drainInbound{0, true}, drainInbound{1, true}}},
			step{at(15), exited{0, Exit{}}, []action{rescue{first(a), origin.Add(at(13 + 62))}}},
		)},
		{"gives up when it lasts", overlap(
			step{at(12), ask, nil}, step{at(13), live{1}, []action{await{0}}},
			step{at(200), tick{}, []action{signal{0, 9}}}, step{at(201), exited{0, killed}, nil}, step{at(300), tick{}, nil},
		)},
	} {
		t.Run(test.name, func(t *testing.T) { run(t, test.steps) })
	}
}

// A supervisor that leaves ends no process, and the next one knows what it knew.
func TestRunLeavesAndTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProxy{script: func(int, Launch) life { return life{liveAfter: time.Second} }}
		var last Status
		image := func(carried *Carried, commands ...Command) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			configCh, askCh := make(chan Config, 1), make(chan Ask)
			if carried == nil {
				configCh <- a
			}
			go func() {
				<-time.After(time.Minute)
				for _, command := range commands {
					_ = Tell(ctx, askCh, command)
				}
			}()
			agent := &Agent{
				Settings: settings, Proxy: p, ConfigCh: configCh, AskCh: askCh, Log: slog.New(slog.DiscardHandler), Carried: carried,
				Observe: func(s Status, _ []Event) { last = s },
			}
			return agent.Run(ctx)
		}
		var left *Left
		if err := image(nil, Drain, Leave); !errors.As(err, &left) {
			t.Fatalf("it ends with %v, want it to leave", err)
		}
		carried := carriedOver(t, left.Carried)
		if err := carried.Check(); err != nil {
			t.Fatal(err)
		}
		p.script = func(int, Launch) life { return life{} } // it is live
		if err := image(&carried, Leave); !errors.As(err, &left) {
			t.Fatalf("the second image ends with %v, want it to leave", err)
		}
		if len(p.ran) != 2 || p.ran[0] != p.ran[1] || !last.Drained || len(last.Epochs) != 1 || last.Counts[Upgraded] != 1 || last.Counts[Serving] != 1 {
			t.Errorf("ran %v, status %+v", p.ran, last)
		}
		// An Envoy that ends meanwhile is replaced.
		carried = carriedOver(t, left.Carried)
		carried.Exits = []CarriedExit{{0, Exit{Code: -1, Unseen: true}}}
		if living := carried.Living(); len(living) != 0 {
			t.Errorf("%v live after their exit: they would be adopted, found gone, and end a second time", living)
		}
		twice := carried
		twice.Exits = append(slices.Clone(carried.Exits), carried.Exits[0])
		if err := twice.Check(); err == nil {
			t.Error("an epoch may end twice")
		}
		p.ran, p.script = nil, func(int, Launch) life { return life{liveAfter: time.Second} }
		if err := image(&carried); err != nil {
			t.Errorf("it ends with %v", err)
		}
		if want := []Launch{{0, 1, 0, a}}; !cmp.Equal(p.ran, want) {
			t.Errorf("ran %v, want %v", p.ran, want)
		}
	})
}

// Until the ports close commands are taken: the next image carries them out, of Drain and Resume the last one.
func TestCommandsWhileTheSupervisorLeaves(t *testing.T) {
	for _, test := range []struct {
		name  string
		asked []Command
		want  Command
	}{
		{"none", nil, Nothing},
		{"what the next image does anyway", []Command{Nothing, Recheck, Leave}, Nothing},
		{"a drain", []Command{Drain, Nothing}, Drain},
		{"a drain that is over", []Command{Drain, Resume}, Resume},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left := &Left{carriedOver(t, served())}
				ctx, cancel := context.WithCancel(t.Context())
				askCh, done := make(chan Ask), make(chan struct{})
				go func() { left.Attend(ctx, askCh); close(done) }()
				for _, command := range test.asked {
					if err := Tell(ctx, askCh, command); err != nil {
						t.Fatal(err)
					}
				}
				cancel()
				<-done
				carried := carriedOver(t, left.Carried)
				if err := carried.Check(); err != nil || carried.Asked != test.want {
					t.Fatalf("carried: %q, %v; want %q", carried.Asked, err, test.want)
				}
				p := &fakeProxy{script: func(int, Launch) life { return life{} }}
				ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				agent := &Agent{
					Settings: settings, Proxy: p, ConfigCh: make(chan Config), AskCh: make(chan Ask), Log: slog.New(slog.DiscardHandler), Carried: &carried,
				}
				var status Status
				agent.Observe = func(s Status, _ []Event) {
					if !s.Stopping {
						status = s
					}
				}
				if err := agent.Run(ctx); err != nil {
					t.Fatal(err)
				}
				if status.Drained != (test.want == Drain) {
					t.Errorf("drained: %t after %v", status.Drained, test.asked)
				}
			})
		})
	}
	c := served()
	c.Asked = Leave
	if err := c.Check(); err == nil {
		t.Error("the command to leave may be carried")
	}
}

// served is the state of a supervisor that has left a serving Envoy.
func served() Carried {
	return Carried{
		Desired: a, Good: a, Families: 1,
		Epochs: []CarriedEpoch{{Launch: first(a), StartedAt: origin, LiveAt: origin.Add(time.Second)}},
	}
}

// FuzzCarried: a state that passes Check, whatever wrote it, makes no supervisor fail: with processes that obey, it goes on for a day, and a
// stop comes to its end.
func FuzzCarried(f *testing.F) {
	for _, change := range []func(*Carried){
		func(*Carried) {},
		func(c *Carried) { c.Drained, c.Asked = true, Resume },
		func(c *Carried) { c.Epochs, c.RetryAt, c.Failures = nil, origin.Add(time.Minute), 3 },
		func(c *Carried) { c.Exits = []CarriedExit{{0, Exit{Code: 1}}} },
		func(c *Carried) {
			c.Desired, c.Handover = b, CarriedHandover{Stage: string(quiet), Began: origin, Due: origin.Add(time.Second)}
		},
		func(c *Carried) {
			c.Desired, c.Handover.Stage, c.Refusal = b, string(refused), CarriedRefusal{b, "no", origin}
		},
		func(c *Carried) { c.Failures, c.Saved, c.Families = 1<<62, 1<<62, 1<<62 },
		func(c *Carried) { c.Epochs[0].Launch.Epoch, c.Epochs[0].Launch.Restart = 1<<63-1, 1<<63-1 },
		func(c *Carried) {
			c.Epochs[0].LiveAt, c.RetryAt, c.Served = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), 1<<62
		},
	} {
		c := served()
		change(&c)
		text, err := json.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, []byte{0, 1, 7, 7, 3, 1, 2, 7})
	}
	f.Fuzz(func(t *testing.T, text, script []byte) {
		var c Carried
		if json.Unmarshal(text, &c) != nil || c.Check() != nil {
			return
		}
		w := &world{t: t, now: origin, state: c.state(origin)}
		for _, e := range c.Epochs {
			w.alive = append(w.alive, process{Launch: e.Launch, live: true, drainedInbound: e.DrainedInbound})
		}
		w.unjudged, w.drained = true, c.Drained
		for _, e := range c.Exits {
			w.exit(0, e.Exit)
		}
		for _, b := range script {
			if w.ended {
				return
			}
			w.now = w.now.Add(time.Duration(b>>4) * time.Hour)
			w.blow(b & 15)
		}
		w.bury()
	})
}
