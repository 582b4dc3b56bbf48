package agent

import (
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	origin   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	settings = Settings{
		HandoverWay: Auto, HandoverTimeout: 30 * time.Second, ParentShutdown: time.Minute, TerminationDrain: 5 * time.Second,
		RestartBudget: 3, BackOffBase: 200 * time.Millisecond,
	}
	crash        = Exit{Code: -1, Signal: syscall.SIGSEGV}
	killed       = Exit{Code: -1, Signal: syscall.SIGKILL}
	held         = Exit{Code: -1, Signal: syscall.SIGKILL, Held: "LDS has not answered"}
	blinding     = Exit{Code: 1, Blinded: true}
	blindingHeld = Exit{Code: -1, Signal: syscall.SIGKILL, Held: "LDS has not answered", Blinded: true}
	refuses      = Exit{Code: 1, Reason: "no such field"}
	a, b         = Config{Bootstrap: "a"}, Config{Bootstrap: "b"}
	c, d         = Config{Bootstrap: "c"}, Config{Bootstrap: "d"}
)

// step is an event at a time after the origin, and the wanted actions, without notes.
type step struct {
	at    time.Duration
	event event
	want  []action
}

// first and the following are launches for the rows.
func first(config Config) Launch { return Launch{Config: config} }

func launch(epoch, family, restart int, c Config) Launch { return Launch{epoch, family, restart, c} }

// serving is the start of most rows: epoch 0 of configuration a is live.
func serving(more ...step) []step {
	return append([]step{{0, configured{a}, []action{start{first(a)}}}, {0, live{0}, nil}}, more...)
}

// overlap is serving, and a handover to b that has begun at second 10 and has a newcomer by hot restart.
func overlap(more ...step) []step {
	return serving(append([]step{
		{10 * time.Second, configured{b}, nil},
		{11 * time.Second, tick{}, []action{check{b}}},
		{11 * time.Second, checked{b, true, ""}, []action{start{launch(1, 0, 1, b)}}},
	}, more...)...)
}

func run(t *testing.T, steps []step) state {
	t.Helper()
	return settings.run(t, steps)
}

func (settings Settings) run(t *testing.T, steps []step) state {
	t.Helper()
	var s state
	for i, step := range steps {
		var got []action
		s, got = settings.next(s, step.event, origin.Add(step.at))
		got = slices.DeleteFunc(got, func(a action) bool { _, is := a.(noted); return is })
		if diff := cmp.Diff(step.want, got, cmp.AllowUnexported(start{}, signal{}, drain{}, drainInbound{}, open{}, await{}, check{}, repair{}, rescue{}, finish{}, leave{}),
			cmp.Transformer("nil", func(in []action) []action { return append([]action{}, in...) })); diff != "" {
			t.Fatalf("step %d, %T at %s (-want +got):\n%s", i, step.event, step.at, diff)
		}
	}
	return s
}

// TestLife: starting, restarting, giving up. A row against a known bug of pilot-agent names the bug.
func TestLife(t *testing.T) {
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"an equal configuration changes nothing", serving(
			step{time.Second, configured{a}, nil},
			step{time.Minute, tick{}, nil},
		)},
		{"replaces at once what was live", serving(
			step{time.Millisecond, exited{0, crash}, []action{start{launch(0, 1, 0, a)}}},
		)},
		{"a clean exit that nobody asked for is a failure (pilot-agent: clean exit wedges)", serving(
			step{time.Minute, exited{0, Exit{Code: 0}}, []action{start{launch(0, 1, 0, a)}}},
		)},
		{"a dead epoch leaves no gap in the numbers (pilot-agent: growing epochs with gaps)", serving(
			step{1 * time.Minute, exited{0, crash}, []action{start{launch(0, 1, 0, a)}}},
			step{1 * time.Minute, live{0}, nil},
			step{2 * time.Minute, exited{0, crash}, []action{start{launch(0, 2, 0, a)}}},
		)},
		{"each start that is no hot restart has a base-id of its own (pilot-agent: colliding base-id)", serving(
			step{1 * time.Minute, exited{0, crash}, []action{start{launch(0, 1, 0, a)}}},
		)},
		{"gives up when the budget is spent", []step{
			{0, configured{a}, []action{start{first(a)}}},
			{0, exited{0, crash}, nil},
			{1 * time.Second, tick{}, []action{start{launch(0, 1, 0, a)}}},
			{1 * time.Second, exited{0, crash}, nil},
			{2 * time.Second, tick{}, []action{start{launch(0, 2, 0, a)}}},
			{2 * time.Second, exited{0, crash}, nil},
			{4 * time.Second, tick{}, []action{start{launch(0, 3, 0, a)}}},
			{4 * time.Second, exited{0, crash}, []action{finish{&GaveUp{Exit: crash, Attempts: 4}}}},
		}},
		{"the budget heals after a stable period (pilot-agent: budget that never heals)", serving(
			step{1 * time.Minute, exited{0, crash}, []action{start{launch(0, 1, 0, a)}}},
			step{1 * time.Minute, live{0}, nil},
			step{2 * time.Minute, exited{0, crash}, []action{start{launch(0, 2, 0, a)}}},
			step{2 * time.Minute, live{0}, nil},
			step{3 * time.Minute, exited{0, crash}, []action{start{launch(0, 3, 0, a)}}},
			step{3 * time.Minute, live{0}, nil},
			step{8 * time.Minute, exited{0, crash}, []action{start{launch(0, 4, 0, a)}}},
		)},
		{"served time refills the budget, and what is over is saved up: then the delay grows", func() []step {
			steps := serving(step{500 * time.Second, exited{0, crash}, []action{start{launch(0, 1, 0, a)}}}) // worth five
			at, family := 500*time.Second, 2
			for range 2 { // the budget, at once
				steps = append(steps, step{at, live{0}, nil}, step{at, exited{0, crash}, []action{start{launch(0, family, 0, a)}}})
				family++
			}
			for range 5 {
				steps = append(steps, step{at, live{0}, nil}, step{at, exited{0, crash}, nil})
				at += time.Minute
				steps = append(steps, step{at, tick{}, []action{start{launch(0, family, 0, a)}}})
				family++
			}
			return append(steps, step{at, live{0}, nil}, step{at, exited{0, crash}, []action{finish{&GaveUp{Exit: crash, Attempts: 9}}}})
		}()},
		{"a new configuration refills the budget", []step{
			{0, configured{a}, []action{start{first(a)}}},
			{0, exited{0, crash}, nil},
			{0, configured{b}, []action{start{launch(0, 1, 0, b)}}},
			{0, exited{0, crash}, nil},
			{1 * time.Second, tick{}, []action{start{launch(0, 2, 0, b)}}},
			{1 * time.Second, exited{0, crash}, nil},
			{2 * time.Second, tick{}, []action{start{launch(0, 3, 0, b)}}},
			{2 * time.Second, exited{0, crash}, nil},
			{4 * time.Second, tick{}, []action{start{launch(0, 4, 0, b)}}},
		}},
		{"a refusal of its configuration is worth one more try", []step{
			{0, configured{a}, []action{start{first(a)}}},
			{0, exited{0, refuses}, nil},
			{time.Second, tick{}, []action{start{launch(0, 1, 0, a)}}},
			{time.Second, exited{0, refuses}, []action{finish{&GaveUp{Exit: refuses, Attempts: 2, Refused: true}}}},
		}},
		{"an exit with 1 by one that has served is no refusal", serving(
			step{time.Minute, exited{0, refuses}, []action{start{launch(0, 1, 0, a)}}},
			step{time.Minute, exited{0, refuses}, nil},
			step{2 * time.Minute, tick{}, []action{start{launch(0, 2, 0, a)}}},
		)},
		{"kills and replaces what hangs", serving(
			step{time.Minute, hung{0}, []action{signal{0, syscall.SIGKILL}}},
			step{time.Minute, hung{0}, nil},
			step{time.Minute, exited{0, killed}, []action{start{launch(0, 1, 0, a)}}},
		)},
		{"an exit of an epoch that it does not know changes nothing", serving(
			step{0, exited{7, crash}, nil},
		)},
	} {
		t.Run(test.name, func(t *testing.T) { run(t, test.steps) })
	}
}

// With hot restart alone there are never more than two epochs.
func TestHotHandover(t *testing.T) {
	const s = time.Second
	until := origin.Add(12*s + time.Minute + parentGrace)
	hot := settings
	hot.HandoverWay = Hot
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"while a parent works on, only the newest of the changes waits", overlap(
			step{12 * s, live{1}, []action{await{0}}},
			step{13 * s, configured{c}, nil},
			step{14 * s, tick{}, []action{check{c}}},
			step{14 * s, checked{c, true, ""}, nil},
			step{20 * s, configured{d}, nil},
			step{21 * s, tick{}, []action{check{d}}},
			step{21 * s, checked{d, true, ""}, nil},
			step{72 * s, exited{0, Exit{}}, []action{rescue{first(a), until}, start{launch(2, 0, 2, d)}}},
		)},
		{"no third epoch: the next handover waits for the parent to leave", overlap(
			step{12 * s, live{1}, []action{await{0}}},
			step{13 * s, configured{c}, nil},
			step{14 * s, tick{}, []action{check{c}}},
			step{14 * s, checked{c, true, ""}, nil},
			step{72 * s, exited{0, Exit{}}, []action{rescue{first(a), until}, start{launch(2, 0, 2, c)}}},
		)},
	} {
		t.Run(test.name, func(t *testing.T) { hot.run(t, test.steps) })
	}
}

// TestHandover: from one configuration to the next.
func TestHandover(t *testing.T) {
	const s = time.Second
	until := origin.Add(12*s + time.Minute + parentGrace)
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"check, start, commit, and the parent leaves by Envoy's protocol", overlap(
			step{12 * s, live{1}, []action{await{0}}},
			step{72 * s, exited{0, Exit{}}, []action{rescue{first(a), until}}},
			step{80 * s, tick{}, nil},
		)},
		{"a parent that is idle leaves early, and opens the gate", overlap(
			step{12 * s, live{1}, []action{await{0}}},
			step{13 * s, idle{0}, []action{signal{0, syscall.SIGTERM}}},
			step{13 * s, configured{c}, nil},
			step{14 * s, tick{}, []action{check{c}}},
			step{14 * s, checked{c, true, ""}, nil},
			step{14 * s, exited{0, Exit{}}, []action{rescue{first(a), until}, start{launch(2, 0, 2, c)}}},
		)},
		{"changes come to rest first, and only the last one counts", serving(
			step{10 * s, configured{b}, nil},
			step{10*s + 50*time.Millisecond, configured{c}, nil},
			step{10*s + 100*time.Millisecond, tick{}, nil},
			step{10*s + 150*time.Millisecond, tick{}, []action{check{c}}},
		)},
		{"changes that do not come to rest are not waited for beyond the ceiling", func() []step {
			steps := serving()
			for i := range 101 { // every 99 ms from 10 s on
				config := Config{Bootstrap: strings.Repeat("x", i+1)}
				steps = append(steps, step{10*s + time.Duration(i)*99*time.Millisecond, configured{config}, nil})
			}
			return append(steps, step{20 * s, tick{}, []action{check{Config{Bootstrap: strings.Repeat("x", 101)}}}})
		}()},
		{"a refused configuration changes nothing (pilot-agent: half-written pair)", serving(
			step{10 * s, configured{b}, nil},
			step{11 * s, tick{}, []action{check{b}}},
			step{12 * s, checked{b, true, "key does not match"}, nil},
			step{60 * s, tick{}, nil},
			step{60 * s, exited{0, crash}, []action{start{launch(0, 1, 0, a)}}}, // what had served
		)},
		{"what a check refused is checked again after a while: its reason may have gone", serving(
			step{10 * s, configured{b}, nil},
			step{11 * s, tick{}, []action{check{b}}},
			step{12 * s, checked{b, true, "no space left on device"}, nil},
			step{71 * s, tick{}, nil},
			step{72 * s, tick{}, []action{check{b}}},
			step{72 * s, checked{b, true, ""}, []action{start{launch(1, 0, 1, b)}}},
		)},
		{"a change between two lives ends a handover whose check is under way", serving(
			step{10 * s, configured{b}, nil},
			step{11 * s, tick{}, []action{check{b}}},
			step{12 * s, exited{0, crash}, []action{start{launch(0, 1, 0, a)}}},
			step{13 * s, exited{0, crash}, nil},
			step{13 * s, configured{c}, []action{start{launch(0, 2, 0, c)}}},
			step{13 * s, checked{b, true, ""}, nil},
			step{14 * s, exited{0, refuses}, nil},
			step{16 * s, tick{}, []action{start{launch(0, 3, 0, a)}}}, // what had served
			step{16 * s, live{0}, nil},
			step{17 * s, tick{}, []action{check{c}}},
			step{17 * s, checked{c, true, "no such field"}, nil},
		)},
		{"the next good configuration after a refused one works", serving(
			step{10 * s, configured{b}, nil},
			step{11 * s, tick{}, []action{check{b}}},
			step{12 * s, checked{b, true, "key does not match"}, nil},
			step{20 * s, configured{c}, nil},
			step{21 * s, tick{}, []action{check{c}}},
			step{21 * s, checked{c, true, ""}, []action{start{launch(1, 0, 1, c)}}},
		)},
		{"a return to what runs needs no handover", serving(
			step{10 * s, configured{b}, nil},
			step{10 * s, configured{a}, nil},
			step{11 * s, tick{}, nil},
		)},
		{"a check of what is no longer desired is not acted on", serving(
			step{10 * s, configured{b}, nil},
			step{11 * s, tick{}, []action{check{b}}},
			step{11 * s, configured{c}, nil},
			step{11 * s, checked{b, true, ""}, nil},
			step{12 * s, tick{}, []action{check{c}}},
		)},
		{"a parent that works on does not delay the next handover", overlap(
			step{12 * s, live{1}, []action{await{0}}},
			step{13 * s, configured{c}, nil},
			step{14 * s, tick{}, []action{check{c}}},
			step{14 * s, checked{c, true, ""}, []action{start{launch(2, 0, 2, c)}}},
			step{15 * s, live{2}, []action{await{1}}},
			step{16 * s, idle{1}, []action{signal{1, syscall.SIGTERM}}},
			step{16 * s, exited{1, Exit{}}, []action{rescue{launch(1, 0, 1, b), origin.Add(15*s + time.Minute + parentGrace)}}},
			step{17 * s, configured{d}, nil},
			step{18 * s, tick{}, []action{check{d}}},
			step{18 * s, checked{d, true, ""}, nil}, // the fourth of the family would have the names of the first
			step{72 * s, idle{0}, []action{signal{0, syscall.SIGTERM}}},
			step{72 * s, exited{0, Exit{}}, []action{start{launch(3, 0, 3, d)}}},
		)},
		{"two parents that work on do, and a parent's time stays what it was", overlap(
			step{12 * s, live{1}, []action{await{0}}},
			step{13 * s, configured{c}, nil},
			step{14 * s, tick{}, []action{check{c}}},
			step{14 * s, checked{c, true, ""}, []action{start{launch(2, 0, 2, c)}}},
			step{15 * s, live{2}, []action{await{1}}},
			step{17 * s, configured{d}, nil},
			step{18 * s, tick{}, []action{check{d}}},
			step{18 * s, checked{d, true, ""}, nil},
			step{74 * s, tick{}, []action{signal{0, syscall.SIGKILL}}},
			step{74 * s, exited{0, killed}, []action{start{launch(3, 0, 3, d)}}},
		)},
		{"a newcomer that fails beside a parent that works on leaves both", overlap(
			step{12 * s, live{1}, []action{await{0}}},
			step{13 * s, configured{c}, nil},
			step{14 * s, tick{}, []action{check{c}}},
			step{14 * s, checked{c, true, ""}, []action{start{launch(2, 0, 2, c)}}},
			step{15 * s, exited{2, blinding}, []action{repair{launch(2, 0, 2, c)}, start{launch(2, 0, 2, c)}}},
			step{16 * s, exited{2, crash}, []action{repair{launch(2, 0, 2, c)}}},
			step{17 * s, tick{}, []action{start{launch(2, 1, 0, c)}}},
			step{18 * s, exited{2, crash}, []action{start{launch(2, 2, 0, b)}}},
			step{19 * s, live{2}, []action{drain{1}}},
		)},
		{"a parent that dies while two newer ones run has a newcomer that still sends to it", overlap(
			step{12 * s, live{1}, []action{await{0}}},
			step{13 * s, configured{c}, nil},
			step{14 * s, tick{}, []action{check{c}}},
			step{14 * s, checked{c, true, ""}, []action{start{launch(2, 0, 2, c)}}},
			step{15 * s, exited{0, crash}, []action{rescue{first(a), until}}},
			step{16 * s, live{2}, []action{await{1}}},
		)},
		{"what is asked for while a newcomer starts comes after it", overlap(
			step{11 * s, configured{c}, nil},
			step{12 * s, live{1}, []action{await{0}}},
			step{13 * s, tick{}, []action{check{c}}},
		)},
		{"a parent that outstays its time is killed (pilot-agent: kill without wait)", overlap(
			step{12 * s, live{1}, []action{await{0}}},
			step{73 * s, tick{}, nil},
			step{74 * s, tick{}, []action{signal{0, syscall.SIGKILL}}},
			step{75 * s, tick{}, nil},
			step{75 * s, exited{0, killed}, nil},
		)},
		{"a newcomer that fails: hot again with the same number, then side by side, then refused (pilot-agent: one crash kills all)", overlap(
			step{12 * s, exited{1, crash}, []action{repair{launch(1, 0, 1, b)}, start{launch(1, 0, 1, b)}}},
			step{14 * s, exited{1, crash}, []action{repair{launch(1, 0, 1, b)}}},
			step{15 * s, tick{}, []action{start{launch(1, 1, 0, b)}}},
			step{16 * s, exited{1, crash}, nil},
			step{99 * s, tick{}, nil},
			step{99 * s, configured{c}, nil},
			step{100 * s, tick{}, []action{check{c}}},
			step{100 * s, checked{c, true, ""}, []action{start{launch(1, 0, 1, c)}}},
		)},
		{"a newcomer that is not live in time is killed, never asked: TERM would take its parent along", overlap(
			step{40 * s, tick{}, nil},
			step{41 * s, tick{}, []action{signal{1, syscall.SIGKILL}}},
			step{41 * s, exited{1, killed}, []action{repair{launch(1, 0, 1, b)}, start{launch(1, 0, 1, b)}}},
		)},
		{"a newcomer that was held all its time is not tried in another way: it is checked again after a while", overlap(
			step{41 * s, tick{}, []action{signal{1, syscall.SIGKILL}}},
			step{41 * s, exited{1, held}, []action{repair{launch(1, 0, 1, b)}}},
			step{100 * s, tick{}, nil},
			step{101 * s, tick{}, []action{check{b}}},
			step{101 * s, checked{b, true, ""}, []action{start{launch(1, 0, 1, b)}}},
		)},
		{"a newcomer that was held is checked again when there is news, or a person wants it", overlap(
			step{41 * s, tick{}, []action{signal{1, syscall.SIGKILL}}},
			step{41 * s, news{0}, nil},
			step{41 * s, exited{1, held}, []action{repair{launch(1, 0, 1, b)}}},
			step{50 * s, news{0}, []action{check{b}}},
			step{51 * s, news{0}, nil},
			step{52 * s, checked{b, true, "CDS has not answered"}, nil},
			step{53 * s, commanded{Recheck}, []action{check{b}}},
			step{53 * s, checked{b, true, ""}, []action{start{launch(1, 0, 1, b)}}},
		)},
		{"a newcomer that another process killed while it was held is tried again at once", overlap(
			step{12 * s, exited{1, held}, []action{repair{launch(1, 0, 1, b)}, start{launch(1, 0, 1, b)}}},
		)},
		{"a newcomer that was held, of a configuration that is desired no more", overlap(
			step{20 * s, configured{c}, nil},
			step{41 * s, tick{}, []action{signal{1, syscall.SIGKILL}}},
			step{41 * s, exited{1, held}, []action{repair{launch(1, 0, 1, b)}}},
			step{42 * s, tick{}, []action{check{c}}},
		)},
		{"a parent whose newcomers failed, and which has lost its admin, is replaced by one of its own configuration", overlap(
			step{12 * s, exited{1, blinding}, []action{repair{launch(1, 0, 1, b)}, start{launch(1, 0, 1, b)}}},
			step{14 * s, exited{1, crash}, []action{repair{launch(1, 0, 1, b)}}},
			step{15 * s, tick{}, []action{start{launch(1, 1, 0, b)}}},
			step{16 * s, exited{1, crash}, []action{start{launch(1, 2, 0, a)}}},
			step{17 * s, live{1}, []action{drain{0}}},
			step{50 * s, idle{0}, []action{signal{0, syscall.SIGTERM}}},
			step{50 * s, exited{0, Exit{}}, nil},
			step{300 * s, tick{}, nil},
			step{300 * s, configured{c}, nil},
			step{301 * s, tick{}, []action{check{c}}},
		)},
		{"if its replacement fails too, it serves on, and what was refused for now is checked again", overlap(
			step{41 * s, tick{}, []action{signal{1, syscall.SIGKILL}}},
			step{41 * s, exited{1, blindingHeld}, []action{repair{launch(1, 0, 1, b)}, start{launch(1, 1, 0, a)}}},
			step{50 * s, news{0}, nil},
			step{71 * s, tick{}, []action{signal{1, syscall.SIGKILL}}},
			step{71 * s, exited{1, held}, nil},
			step{130 * s, tick{}, nil},
			step{131 * s, tick{}, []action{check{b}}},
		)},
		{"what is asked for while it is replaced comes after it", overlap(
			step{41 * s, tick{}, []action{signal{1, syscall.SIGKILL}}},
			step{41 * s, exited{1, blindingHeld}, []action{repair{launch(1, 0, 1, b)}, start{launch(1, 1, 0, a)}}},
			step{42 * s, configured{c}, nil},
			step{43 * s, live{1}, []action{drain{0}}},
			step{44 * s, tick{}, []action{check{c}}},
		)},
		{"or after its failure", overlap(
			step{41 * s, tick{}, []action{signal{1, syscall.SIGKILL}}},
			step{41 * s, exited{1, blindingHeld}, []action{repair{launch(1, 0, 1, b)}, start{launch(1, 1, 0, a)}}},
			step{42 * s, configured{c}, nil},
			step{43 * s, exited{1, crash}, nil},
			step{44 * s, tick{}, []action{check{c}}},
		)},
		{"it dies while it is replaced: its replacement goes on", overlap(
			step{41 * s, tick{}, []action{signal{1, syscall.SIGKILL}}},
			step{41 * s, exited{1, blindingHeld}, []action{repair{launch(1, 0, 1, b)}, start{launch(1, 1, 0, a)}}},
			step{42 * s, exited{0, crash}, nil},
			step{43 * s, live{1}, nil},
			step{102 * s, tick{}, []action{check{b}}},
		)},
		{"a newcomer that is fit may take over, and has its time anew: its parent may have closed its listeners", overlap(
			step{40 * s, fit{1}, []action{open{1}}},
			step{41 * s, tick{}, nil},
			step{69 * s, tick{}, nil},
			step{70 * s, tick{}, []action{signal{1, syscall.SIGKILL}}},
		)},
		{"one that is fit too late is not let through", overlap(
			step{41 * s, tick{}, []action{signal{1, syscall.SIGKILL}}},
			step{41 * s, fit{1}, nil},
		)},
		{"one that is fit when all is stopped is not let through", overlap(
			step{12 * s, terminate{}, []action{drainInbound{0, true}, signal{1, syscall.SIGKILL}}},
			step{12 * s, fit{1}, nil},
		)},
		{"an epoch that lacks a port is followed by another of the same configuration", serving(
			step{10 * s, incomplete{0}, nil},
			step{11 * s, incomplete{0}, []action{check{a}}},
			step{11 * s, checked{a, true, ""}, []action{start{launch(1, 0, 1, a)}}},
			step{12 * s, incomplete{0}, nil},
			step{12 * s, live{1}, []action{await{0}}},
			step{13 * s, incomplete{0}, nil},
			step{14 * s, tick{}, nil},
		)},
		{"it is not, while another is refused, or it is to be killed", serving(
			step{10 * s, configured{b}, nil},
			step{11 * s, tick{}, []action{check{b}}},
			step{12 * s, checked{b, true, "no"}, nil},
			step{13 * s, incomplete{0}, nil},
			step{14 * s, configured{a}, nil},
			step{15 * s, hung{0}, []action{signal{0, syscall.SIGKILL}}},
			step{16 * s, incomplete{0}, nil},
			step{17 * s, tick{}, nil},
		)},
		{"news change nothing while nothing is refused", serving(step{10 * s, news{0}, nil}, step{11 * s, commanded{Recheck}, nil})},
		{"a newcomer that hangs is killed, its parent serves on", overlap(
			step{13 * s, hung{1}, []action{signal{1, syscall.SIGKILL}}},
			step{13 * s, exited{1, killed}, []action{repair{launch(1, 0, 1, b)}, start{launch(1, 0, 1, b)}}},
		)},
		{"the parent dies before the newcomer is live: afresh at once, and the newcomer goes", overlap(
			step{12 * s, exited{0, crash}, []action{signal{1, syscall.SIGKILL}, start{launch(2, 1, 0, a)}}},
			step{12 * s, exited{1, killed}, nil},
			step{12 * s, live{2}, nil},
			step{13 * s, tick{}, []action{check{b}}},
		)},
		{"the parent dies in the overlap: somebody must take the message", overlap(
			step{12 * s, live{1}, []action{await{0}}},
			step{20 * s, exited{0, crash}, []action{rescue{first(a), until}}},
		)},
		{"the newcomer dies in the overlap: a fresh family, and the parent drains on", overlap(
			step{12 * s, live{1}, []action{await{0}}},
			step{20 * s, exited{1, crash}, []action{start{launch(1, 1, 0, b)}}},
			step{20 * s, live{1}, nil},
			step{21 * s, hung{0}, nil},
			step{74 * s, tick{}, []action{signal{0, syscall.SIGKILL}}},
		)},
		{"side by side, where hot is not possible: the old one is told to drain, and leaves when it is idle", serving(
			step{10 * s, configured{b}, nil},
			step{11 * s, tick{}, []action{check{b}}},
			step{11 * s, checked{b, false, ""}, []action{start{launch(1, 1, 0, b)}}},
			step{12 * s, live{1}, []action{drain{0}}},
			step{13 * s, idle{0}, []action{signal{0, syscall.SIGTERM}}},
			step{13 * s, exited{0, Exit{}}, nil},
		)},
		{"side by side, the old one dies first: the newcomer needs no parent", serving(
			step{10 * s, configured{b}, nil},
			step{11 * s, tick{}, []action{check{b}}},
			step{11 * s, checked{b, false, ""}, []action{start{launch(1, 1, 0, b)}}},
			step{12 * s, exited{0, crash}, nil},
			step{40 * s, tick{}, nil},
			step{40 * s, live{1}, nil},
			step{99 * s, tick{}, nil},
		)},
		{"side by side, the old one dies first and the newcomer is not live in time: what has served comes back", serving(
			step{10 * s, configured{b}, nil},
			step{11 * s, tick{}, []action{check{b}}},
			step{11 * s, checked{b, false, ""}, []action{start{launch(1, 1, 0, b)}}},
			step{12 * s, exited{0, crash}, nil},
			step{41 * s, tick{}, []action{signal{1, syscall.SIGKILL}}},
			step{41 * s, exited{1, killed}, nil},
			step{42 * s, tick{}, []action{start{launch(0, 2, 0, a)}}},
			step{42 * s, live{0}, nil},
			step{43 * s, tick{}, []action{check{b}}},
		)},
		{"one that has never been live serves nobody, so it is not waited for", []step{
			{0, configured{a}, []action{start{first(a)}}},
			{10 * s, configured{b}, nil},
			{11 * s, tick{}, []action{check{b}}},
			{11 * s, checked{b, true, ""}, []action{signal{0, syscall.SIGKILL}, start{launch(1, 1, 0, b)}}},
			{12 * s, exited{0, killed}, nil},
			{13 * s, live{1}, nil},
		}},
	} {
		t.Run(test.name, func(t *testing.T) { run(t, test.steps) })
	}
}

// TestStop: one deadline, which ends when the work ends.
func TestStop(t *testing.T) {
	const s = time.Second
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"before it has started anything", []step{{0, terminate{}, []action{finish{}}}}},
		{"while it waits to retry", []step{
			{0, configured{a}, []action{start{first(a)}}},
			{0, exited{0, crash}, nil},
			{0, terminate{}, []action{finish{}}},
		}},
		{"as soon as nothing is in flight", serving(
			step{60 * s, terminate{}, []action{drainInbound{0, true}}},
			step{61 * s, idle{0}, []action{signal{0, syscall.SIGTERM}}},
			step{61 * s, exited{0, Exit{}}, []action{finish{}}},
		)},
		{"at the latest at the end of the drain, then by KILL", serving(
			step{60 * s, terminate{}, []action{drainInbound{0, true}}},
			step{65 * s, tick{}, []action{signal{0, syscall.SIGTERM}}},
			step{68 * s, tick{}, []action{signal{0, syscall.SIGKILL}}},
			step{90 * s, tick{}, nil},
			step{90 * s, exited{0, killed}, []action{finish{}}},
		)},
		{"a second command hurries, a third kills", serving(
			step{60 * s, terminate{}, []action{drainInbound{0, true}}},
			step{62 * s, terminate{}, []action{signal{0, syscall.SIGTERM}}},
			step{62 * s, terminate{}, []action{signal{0, syscall.SIGKILL}}},
			step{63 * s, terminate{}, nil},
			step{63 * s, exited{0, killed}, []action{finish{}}},
		)},
		{"a sender that signals twice changes nothing", serving(
			step{60 * s, terminate{}, []action{drainInbound{0, true}}},
			step{60 * s, terminate{}, nil},
			step{62*s - 1, terminate{}, nil},
			step{65 * s, tick{}, []action{signal{0, syscall.SIGTERM}}},
			step{65 * s, exited{0, Exit{}}, []action{finish{}}},
		)},
		{"without a drain", serving(
			step{60 * s, quit{}, []action{drainInbound{0, true}, signal{0, syscall.SIGTERM}}},
			step{60 * s, terminate{}, nil},
			step{61 * s, quit{}, nil},
			step{62 * s, quit{}, []action{signal{0, syscall.SIGKILL}}},
			step{62 * s, exited{0, killed}, []action{finish{}}},
		)},
		{"in the drain, without the rest of it", serving(
			step{60 * s, terminate{}, []action{drainInbound{0, true}}},
			step{60 * s, quit{}, []action{signal{0, syscall.SIGTERM}}},
			step{60 * s, exited{0, Exit{}}, []action{finish{}}},
		)},
		{"before it is live, without a drain", []step{
			{0, configured{a}, []action{start{first(a)}}},
			{0, quit{}, []action{signal{0, syscall.SIGTERM}}},
		}},
		{"in a handover, without a drain", overlap(
			step{12 * s, quit{}, []action{drainInbound{0, true}, signal{1, syscall.SIGKILL}, signal{0, syscall.SIGTERM}}},
		)},
		{"nor before it is live", []step{
			{0, configured{a}, []action{start{first(a)}}},
			{0, terminate{}, []action{signal{0, syscall.SIGTERM}}},
			{1 * s, terminate{}, nil},
			{2 * s, terminate{}, []action{signal{0, syscall.SIGKILL}}},
		}},
		{"before it is live: at once", []step{
			{0, configured{a}, []action{start{first(a)}}},
			{0, terminate{}, []action{signal{0, syscall.SIGTERM}}},
			{0, exited{0, Exit{Code: -1, Signal: syscall.SIGTERM}}, []action{finish{}}},
		}},
		{"one that hangs is killed", serving(
			step{60 * s, terminate{}, []action{drainInbound{0, true}}},
			step{61 * s, hung{0}, []action{signal{0, syscall.SIGKILL}}},
			step{61 * s, exited{0, killed}, []action{finish{}}},
		)},
		{"in a handover the newcomer is killed, for its TERM would take the parent along", overlap(
			step{12 * s, terminate{}, []action{drainInbound{0, true}, signal{1, syscall.SIGKILL}}},
			step{12 * s, exited{1, killed}, nil},
			step{13 * s, idle{0}, []action{signal{0, syscall.SIGTERM}}},
			step{13 * s, exited{0, Exit{}}, []action{finish{}}},
		)},
		{"in the overlap both finish their work", overlap(
			step{12 * s, live{1}, []action{await{0}}},
			step{13 * s, terminate{}, []action{drainInbound{0, true}, drainInbound{1, true}}},
			step{13 * s, idle{1}, nil},
			step{14 * s, idle{0}, []action{signal{0, syscall.SIGTERM}, signal{1, syscall.SIGTERM}}},
			step{14 * s, exited{1, Exit{}}, nil},
			step{14 * s, exited{0, Exit{}}, []action{finish{}}},
		)},
		{"a newcomer that ends after its parent tells the supervisor to terminate", overlap(
			step{12 * s, live{1}, []action{await{0}}},
			step{13 * s, terminate{}, []action{drainInbound{0, true}, drainInbound{1, true}}},
			step{14 * s, exited{0, Exit{}}, []action{rescue{first(a), origin.Add(74 * s)}}},
			step{14 * s, idle{1}, []action{signal{1, syscall.SIGTERM}}},
			step{14 * s, exited{1, Exit{}}, []action{finish{}}},
		)},
		{"nothing is started any more", serving(
			step{10 * s, configured{b}, nil},
			step{10 * s, terminate{}, []action{drainInbound{0, true}}},
			step{11 * s, configured{c}, nil},
			step{12 * s, tick{}, nil},
			step{12 * s, exited{0, crash}, []action{finish{}}},
		)},
	} {
		t.Run(test.name, func(t *testing.T) { run(t, test.steps) })
	}
}

func TestARefusalIsRememberedUntilItIsAnswered(t *testing.T) {
	steps := serving(
		step{time.Second, configured{b}, nil},
		step{2 * time.Second, tick{}, []action{check{b}}},
		step{2 * time.Second, checked{b, true, "expired"}, nil},
	)
	s := run(t, steps)
	if want := (refusal{b, "expired", origin.Add(2 * time.Second)}); s.refusal != want {
		t.Errorf("refusal %+v, want %+v", s.refusal, want)
	}
	s = run(t, append(steps, step{3 * time.Second, configured{a}, nil}))
	if s.refusal != (refusal{}) {
		t.Errorf("after the return to what runs: refusal %+v, want none", s.refusal)
	}
}

func TestBackOffGrowsAndIsBounded(t *testing.T) {
	for seed := range uint64(100) {
		previous := time.Duration(0)
		for attempt := range 100 {
			delay, _ := settings.backOff(attempt, seed)
			if delay < previous && previous < backOffCap*8/10 || delay > backOffCap {
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

// TestStopWaitsOut: the whole of the drain, though nothing is in flight.
func TestStopWaitsOut(t *testing.T) {
	patient := settings
	patient.WaitOut = true
	var s state
	terms := map[time.Duration]int{}
	for _, step := range serving(
		step{60 * time.Second, terminate{}, nil},
		step{61 * time.Second, idle{0}, nil},
		step{64 * time.Second, tick{}, nil},
		step{65 * time.Second, tick{}, nil},
	) {
		var actions []action
		s, actions = patient.next(s, step.event, origin.Add(step.at))
		for _, a := range actions {
			if a == (signal{0, syscall.SIGTERM}) {
				terms[step.at]++
			}
		}
	}
	if want := map[time.Duration]int{65 * time.Second: 1}; !maps.Equal(terms, want) {
		t.Errorf("SIGTERM at %v, want %v", terms, want)
	}
}

// The time that a handover took begins with the check that let it through, not with the one that refused it, or nowhere.
func TestAHandoverThatWasRefusedOnceTellsItsTime(t *testing.T) {
	s := run(t, serving(
		step{10 * time.Second, configured{b}, nil},
		step{11 * time.Second, tick{}, []action{check{b}}},
		step{12 * time.Second, checked{b, true, "no space left on device"}, nil},
		step{72 * time.Second, tick{}, []action{check{b}}},
		step{73 * time.Second, checked{b, true, ""}, []action{start{launch(1, 0, 1, b)}}},
		step{74 * time.Second, live{1}, []action{await{0}}},
	))
	if s.took != 2*time.Second {
		t.Errorf("it took %s, want 2s", s.took)
	}
}
