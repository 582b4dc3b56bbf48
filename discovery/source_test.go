package discovery

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// The lines of a source repeat what a registry sent, without control characters, and not at any length.
func TestLinesCannotBeForged(t *testing.T) {
	s := SourceStatus{
		Name: "Eureka", State: SourceFailed, Error: "read: \x1b[2J\nready\r\n\u202e",
		Malformed: []string{"a\nsource Kubernetes: forged: \x9b", strings.Repeat("x", 1<<20)},
	}
	all := strings.Join(s.Lines(), "")
	for _, bad := range []string{"\x1b", "\n", "\r", "\x9b", "\u202e"} {
		if strings.Contains(all, bad) {
			t.Errorf("the lines contain %q", bad)
		}
	}
	if !strings.Contains(all, `\x1b[2J\nready`) || len(all) > 4*maxLine {
		t.Errorf("%d bytes, %.200q", len(all), all)
	}
}

// Discovery becomes ready without a source that does not sync in time, reports that, and adds its groups when it syncs.
func TestServerGoesOnWithoutALateSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newFake(), newFake()
		s, r := serve(t, map[string]Source{"a": a, "b": b})
		a.updates <- update{"x": "1"}.model(true)
		b.updates <- update{"y": "1"}.model(false)
		b.broken <- errors.New("refused")
		pass(syncTimeout - time.Second)
		r.want(t)
		if want := "source b: it has not synced yet: run source b: refused"; !slices.Equal(lines(s), []string{want}) {
			t.Errorf("before the deadline the lines are %q, want %s", lines(s), want)
		}
		pass(time.Second)
		r.want(t, push{syncTimeout, []string{"x1", "y1"}}) // the groups that it sent are served
		if got := lines(s); len(got) != 1 || !strings.Contains(got[0], "ready without it: run source b: refused") || !s.Synced() {
			t.Errorf("after the deadline the lines are %q", got)
		}
		b.updates <- update{"y": "2"}.model(true)
		pass(time.Second)
		r.want(t, push{syncTimeout, []string{"x1", "y1"}}, push{syncTimeout + 100*time.Millisecond, []string{"x1", "y2"}})
		if got := lines(s); len(got) > 0 {
			t.Errorf("when it has synced the lines are %q", got)
		}
	})
}

func lines(s *Server) (out []string) {
	for _, now := range s.Statuses() {
		out = append(out, now.Lines()...)
	}
	return out
}

// Without a single source that has synced there is no mesh: it would remove all configuration that proxies have.
func TestFirstMeshNeedsASource(t *testing.T) {
	settings := func(s *state) {
		o := &model.Object{Spec: &meshconfig.MeshConfig{}}
		s.apply(sourceEvent{feed: s.sources["settings"].feed, update: model.Update{
			Synced: true, Groups: map[string]model.Group{"MeshConfig": {Objects: []*model.Object{o}}},
		}}, epoch)
	}
	empty := func(s *state) { at{0, "a", update{}, true, false}.apply(s) }
	partial := func(s *state) { at{0, "a", update{"x": "1"}, false, false}.apply(s) }
	ended := func(s *state) { s.apply(sourceEvent{feed: s.sources["a"].feed, ended: true}, epoch) }
	for name, test := range map[string]struct {
		does []func(*state)
		want time.Duration // of the first push; negative for never
	}{
		"none syncs":                             {nil, -1},
		"only settings":                          {[]func(*state){settings}, -1},
		"a part is no mesh":                      {[]func(*state){settings, partial}, -1},
		"one syncs, with nothing":                {[]func(*state){empty}, 30 * time.Second},
		"all sync":                               {[]func(*state){settings, empty}, 0},
		"one ends, and has no more to tell than": {[]func(*state){settings, ended}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := stateOf("a", "settings")
			for _, do := range test.does {
				do(s)
			}
			wake, _ := s.wake(Debounce{})
			s.expire(wake)
			due, ok := s.debounce(Debounce{})
			if ok != (test.want >= 0) || ok && !due.Equal(epoch) || ok && wake.Sub(epoch) != test.want {
				t.Errorf("due = %v, %t; awake at %v, want %v", due, ok, wake, test.want)
			}
			if again, ok := s.wake(Debounce{}); ok != (test.want >= 0) {
				t.Errorf("it wakes again at %v, %t", again, ok)
			}
		})
	}
}

// hosts0 returns an update with services h0, h1 …
func hosts0(count int) update {
	u := update{}
	for i := range count {
		u[fmt.Sprint("h", i, ".")] = "1"
	}
	return u
}

// Groups that a removed source had, or that a restarted one no longer has, are held for a while if they are most of the
// mesh.
func TestGroupsThatGoAtOnce(t *testing.T) {
	remove := func(s *state, _ update) { s.reconcile(rosterLess(s, "b"), epoch.Add(time.Minute)) }
	restart := func(s *state, left update) {
		at{60000, "b", nil, false, true}.apply(s)
		at{60000, "b", left, true, false}.apply(s)
	}
	for name, test := range map[string]struct {
		a, b int
		goes func(*state, update)
		left int
		held int
	}{
		"a small source is removed":   {4, 4, remove, 0, 0},
		"most of the mesh is removed": {4, 5, remove, 0, 5},
		"two services are no mesh":    {0, 2, remove, 0, 0},
		"restarted with all":          {0, 9, restart, 9, 0},
		"restarted with half":         {0, 8, restart, 4, 0},
		"restarted with less":         {0, 9, restart, 4, 5},
		"restarted with nothing":      {1, 9, restart, 0, 9},
	} {
		t.Run(name, func(t *testing.T) {
			s := stateOf("a", "b")
			a := update{}
			for i := range test.a {
				a[fmt.Sprint("a", i)] = "1"
			}
			at{0, "a", a, true, false}.apply(s)
			at{0, "b", hosts0(test.b), true, false}.apply(s)
			s.flush(epoch)
			test.goes(s, hosts0(test.left))
			want := test.a + test.left + test.held
			if got := len(hosts(s.next())); got != want {
				t.Errorf("%d hosts are served, want %d", got, want)
			}
			if test.held == 0 {
				return
			}
			b := s.sources["b"].report()
			until := epoch.Add(90 * time.Second)
			if wake, _ := s.wake(Debounce{}); b.Held != test.held || !b.Until.Equal(until) || !wake.Equal(until) || len(b.Lines()) == 0 {
				t.Errorf("the status is %+v, the next look at %v", b, wake)
			}
			s.expire(until.Add(-1))
			if got := len(hosts(s.next())); got != want {
				t.Errorf("before the time is over %d hosts are served, want %d", got, want)
			}
			s.expire(until)
			if _, due := s.debounce(Debounce{}); !due || len(hosts(s.next())) != want-test.held {
				t.Errorf("when the time is over %d hosts are served, want %d", len(hosts(s.next())), want-test.held)
			}
		})
	}
}

func rosterLess(s *state, name string) map[string]*feed {
	roster := map[string]*feed{}
	for other, t := range s.sources {
		if other != name {
			roster[other] = t.feed
		}
	}
	return roster
}

// A source that returns within that time takes over the held groups, and one that replaces another keeps them until it
// has synced.
func TestGroupsAreTakenOver(t *testing.T) {
	for name, replaced := range map[string]bool{"removed, and added again": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			s := stateOf("a")
			at{0, "a", hosts0(5), true, false}.apply(s)
			s.flush(epoch)
			old := s.sources["a"].feed
			if !replaced {
				s.reconcile(nil, epoch)
			}
			start, stop := s.reconcile(rosterOf("a"), epoch.Add(time.Second))
			if len(start) != 1 || (len(stop) == 1) != replaced {
				t.Fatalf("start %v, stop %v", start, stop)
			}
			at{2000, "a", nil, false, true}.apply(s)
			s.apply(sourceEvent{feed: old, update: update{"h0.": ""}.model(true)}, epoch) // the old one ends slowly, and its updates are ignored
			at{2000, "a", update{"new": "1"}, false, false}.apply(s)
			if got := len(hosts(s.next())); got != 6 {
				t.Errorf("before it has synced %d hosts are served, want 6", got)
			}
			at{3000, "a", hosts0(4), true, false}.apply(s)
			if got := len(hosts(s.next())); got != 5 {
				t.Errorf("when it has synced %d hosts are served, want 5", got)
			}
		})
	}
}

// Sources are added and removed while the server runs.
func TestServerAddsAndRemovesSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := newFake(), newFake(), newFake()
		s, r := serve(t, map[string]Source{"a": a})
		a.updates <- update{"x": "1"}.model(true)
		pass(time.Second)
		s.Add("b/c", b)
		pass(time.Second)
		a.updates <- update{"x": "2"}.model(true) // the new one has sent nothing yet, and delays nothing
		pass(time.Second)
		b.updates <- update{"y": "1"}.model(true)
		pass(time.Second)
		s.Add("b/c", c)
		c.updates <- update{"y": "1"}.model(true) // nothing new
		pass(time.Second)
		s.Remove("b/c")
		pass(time.Second)
		r.want(t,
			push{0, []string{"x1"}}, push{2 * time.Second, []string{"x2"}},
			push{3 * time.Second, []string{"x2", "y1"}}, push{5 * time.Second, []string{"x2"}})
		if now := s.Statuses(); len(now) != 1 || now[0].Name != "a" {
			t.Errorf("the sources are %+v, want a alone", now)
		}
	})
}

// deaf is a source that does not end with its context at once.
type deaf struct {
	fake
	end chan struct{}
}

func (d deaf) Run(_ context.Context, updates chan<- model.Update) error {
	for {
		select {
		case u := <-d.updates:
			updates <- u
		case <-d.end:
			return nil
		}
	}
}

// The groups of a removed source are removed even if it does not end, and its further updates are ignored.
func TestServerRemovesASourceThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newFake(), deaf{newFake(), make(chan struct{})}
		s, r := serve(t, map[string]Source{"a": a, "b": b})
		a.updates <- update{"x": "1"}.model(true)
		b.updates <- update{"y": "1"}.model(true)
		pass(time.Second)
		s.Remove("b")
		pass(time.Second)
		b.updates <- update{"z": "1"}.model(true)
		pass(time.Second)
		r.want(t, push{0, []string{"x1", "y1"}}, push{time.Second, []string{"x1"}})
		close(b.end)
	})
}

// A source that fails again and again is logged once, then every ten minutes, and again after it has synced.
func TestAFailingSourceIsToldOnce(t *testing.T) {
	s := stateOf("a")
	fail := func(after time.Duration) {
		s.apply(sourceEvent{feed: s.sources["a"].feed, started: true}, epoch.Add(after))
		s.apply(sourceEvent{feed: s.sources["a"].feed, ended: true, err: errors.New("no answer")}, epoch.Add(after))
	}
	sync := func(after time.Duration) {
		s.apply(sourceEvent{feed: s.sources["a"].feed, started: true}, epoch.Add(after))
		s.apply(sourceEvent{feed: s.sources["a"].feed, update: update{"x": "1"}.model(true)}, epoch.Add(after))
	}
	for i, test := range []struct {
		does  func(time.Duration)
		after time.Duration
		want  string
	}{
		{sync, 0, ""},
		{fail, time.Second, "ERROR source failed, its last groups are served"},
		{fail, 2 * time.Second, "DEBUG source failed, its last groups are served"},
		{fail, 10 * time.Minute, "DEBUG source failed, its last groups are served"},
		{fail, 10*time.Minute + time.Second, "ERROR source failed, its last groups are served"},
		{fail, 10*time.Minute + 2*time.Second, "DEBUG source failed, its last groups are served"},
		{sync, 11 * time.Minute, "INFO source synced again"},
		{sync, 12 * time.Minute, ""},
		{fail, 13 * time.Minute, "ERROR source failed, its last groups are served"},
	} {
		test.does(test.after)
		got := ""
		for _, m := range s.journal.messages {
			got += m.level.String() + " " + m.text
		}
		if s.journal.messages = nil; got != test.want {
			t.Errorf("%d: told %q, want %q", i, got, test.want)
		}
	}
	if now := s.sources["a"].report(); now.Error != "no answer" || now.Restarts != 5 {
		t.Errorf("the status is %+v", now)
	}
}

// A malformed record does not affect others: its last good form stays, and it is reported until it is corrected or
// deleted.
func TestMalformedRecords(t *testing.T) {
	s := stateOf("a")
	at{0, "a", update{"x": "1", "y": "1"}, true, false}.apply(s)
	s.flush(epoch)
	tell := func(groups map[string]model.Group) {
		s.apply(sourceEvent{feed: s.sources["a"].feed, update: model.Update{Groups: groups, Synced: true}}, epoch)
	}
	bad := model.Group{Faults: []string{"port 99999"}}
	tell(map[string]model.Group{"x": bad, "new": bad})
	tell(map[string]model.Group{"x": bad})
	if _, due := s.debounce(Debounce{}); due {
		t.Error("there is something to push")
	}
	if len(s.journal.messages) != 2 || s.journal.messages[0].text != "malformed record skipped" {
		t.Errorf("told %v, want each record once", s.journal.messages)
	}
	tell(map[string]model.Group{"keys": {Faults: []string{"no answer"}, Fetched: true}})
	if last := s.journal.messages[len(s.journal.messages)-1].text; last != "what a policy names was not fetched, what was fetched last stays" {
		t.Errorf("of keys that are not to be had the log says %q", last)
	}
	tell(map[string]model.Group{"keys": {}})
	want := []string{"new: port 99999", "x: port 99999"}
	if diff := cmp.Diff(want, s.sources["a"].report().Malformed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	part := update{"x": "2"}.model(false).Groups["x"]
	part.Faults = []string{"the second of 2 instances has no address"}
	tell(map[string]model.Group{"x": part, "new": {}})
	mesh, _ := s.flush(epoch)
	if diff := cmp.Diff([]string{"x2", "y1"}, hosts(mesh)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := s.sources["a"].report().Malformed; !slices.Equal(got, []string{"x: the second of 2 instances has no address"}) {
		t.Errorf("malformed is %q", got)
	}
	at{0, "a", nil, false, true}.apply(s)
	at{0, "a", update{"x": "2"}, true, false}.apply(s)
	if now := s.sources["a"].report(); len(now.Malformed) > 0 || now.Objects != 1 {
		t.Errorf("the status is %+v", now)
	}
}

// A group that is sent again without a change is no change.
func TestEqualGroupsChangeNothing(t *testing.T) {
	s := stateOf("a")
	at{0, "a", update{"x": "1"}, true, false}.apply(s)
	first, _ := s.flush(epoch)
	at{0, "a", nil, false, true}.apply(s)
	at{0, "a", update{"x": "1"}, true, false}.apply(s)
	if _, due := s.debounce(Debounce{}); due || s.next().Service("x1") != first.Service("x1") {
		t.Error("a restart of the source makes a new mesh")
	}
}

func TestSourceMetrics(t *testing.T) {
	s := &Server{}
	s.statuses.Store(&[]SourceStatus{{
		Name: "a", State: SourceFailed, Objects: 7, Restarts: 2, Malformed: []string{"x: y"}, ErrorTime: time.Unix(5, 5e8), Late: true,
	}})
	const want = `# HELP pilotlight_source_last_error_timestamp_seconds When a source last failed; absent before that.
# TYPE pilotlight_source_last_error_timestamp_seconds gauge
pilotlight_source_last_error_timestamp_seconds{source="a"} 5.5
# HELP pilotlight_source_late 1 while discovery goes on without a source that has not synced within its deadline.
# TYPE pilotlight_source_late gauge
pilotlight_source_late{source="a"} 1
# HELP pilotlight_source_malformed_records Records of a source that cannot be read: see /debug/sources.
# TYPE pilotlight_source_malformed_records gauge
pilotlight_source_malformed_records{source="a"} 1
# HELP pilotlight_source_objects Services and objects that are served of a source.
# TYPE pilotlight_source_objects gauge
pilotlight_source_objects{source="a"} 7
# HELP pilotlight_source_restarts_total Starts of a source after an error.
# TYPE pilotlight_source_restarts_total counter
pilotlight_source_restarts_total{source="a"} 2
# HELP pilotlight_source_state 1 for the state that a source is in: syncing, synced, failed, ended, removed.
# TYPE pilotlight_source_state gauge
pilotlight_source_state{source="a",state="ended"} 0
pilotlight_source_state{source="a",state="failed"} 1
pilotlight_source_state{source="a",state="removed"} 0
pilotlight_source_state{source="a",state="synced"} 0
pilotlight_source_state{source="a",state="syncing"} 0
`
	if err := testutil.CollectAndCompare(s, strings.NewReader(want), "pilotlight_source_state", "pilotlight_source_late", "pilotlight_source_objects",
		"pilotlight_source_malformed_records", "pilotlight_source_restarts_total", "pilotlight_source_last_error_timestamp_seconds",
		"pilotlight_source_last_change_timestamp_seconds"); err != nil {
		t.Error(err)
	}
}

// adder is a source without groups of its own: it adds another source, and has synced.
type adder struct{ add func() }

func (a adder) Run(ctx context.Context, updates chan<- model.Update) error {
	a.add()
	select {
	case updates <- model.Update{Synced: true}:
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil
}

func (adder) OnlySources() {}

// The first mesh waits for the sources that a source adds before it syncs, for as long as for any other. The sync of
// such a source alone makes no mesh.
func TestServerWaitsForSourcesThatASourceAdds(t *testing.T) {
	for range 20 { // the order of events is random
		synctest.Test(t, func(t *testing.T) {
			a, b := newFake(), newFake()
			var s *Server
			added := make(chan struct{})
			s, r := serve(t, map[string]Source{"a": a, "adder": adder{func() {
				<-added
				s.Add("b", b)
			}}})
			a.updates <- update{"x": "1"}.model(true)
			synctest.Wait()
			close(added)
			pass(time.Minute)
			r.want(t)
			b.updates <- update{"y": "1"}.model(true)
			pass(time.Second)
			r.want(t, push{time.Minute, []string{"x1", "y1"}})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		_, r := serve(t, map[string]Source{"a": newFake(), "adder": adder{func() {}}})
		pass(2 * syncTimeout)
		r.want(t)
	})
}

// A source that is added for what the first mesh names is waited for, until it is late; later ones are not.
func TestFirstMeshWaitsForWhatItNames(t *testing.T) {
	for name, test := range map[string]struct {
		synced bool
		want   push
	}{
		"it comes": {true, push{5 * time.Second, []string{"x1", "z1"}}},
		"late":     {false, push{time.Second + syncTimeout, []string{"x1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, named := newFake(), newFake()
				var previews atomic.Int32
				r := &recorder{start: time.Now()}
				s := &Server{
					Sources: map[string]Source{"a": a}, Pusher: r, Log: slog.New(slog.DiscardHandler), Patience: Patience{Sync: syncTimeout},
					random: func() float64 { return 0 },
				}
				s.Preview = func(groups iter.Seq[model.Group]) {
					first := previews.Add(1) == 1
					if len(slices.Collect(groups)) == 0 {
						t.Error("it gets no groups")
					}
					if first {
						s.Add("named", named)
					}
				}
				start(t, s)
				pass(time.Second)
				a.updates <- update{"x": "1"}.model(true)
				pass(4 * time.Second)
				r.want(t)
				if test.synced {
					named.updates <- update{"z": "1"}.model(true)
				}
				pass(syncTimeout)
				r.want(t, test.want)
				before := previews.Load()
				a.updates <- update{"x": "1"}.model(true)
				pass(time.Second)
				if previews.Load() != before {
					t.Error("it gets the groups of later meshes")
				}
			})
		})
	}
}
