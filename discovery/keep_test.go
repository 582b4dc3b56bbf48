package discovery

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// recalled returns a state that was started at the epoch with what its sources had twelve minutes before.
func recalled(had map[string]update, adder func(string) string, names ...string) *state {
	s := newState(Patience{Sync: 30 * time.Second, Wipe: 30 * time.Second})
	s.required = func(name string) bool { return !strings.HasPrefix(name, "optional") }
	s.adder, s.keeps = adder, true
	all := map[string]Remembered{}
	for name, u := range had {
		all[name] = Remembered{Groups: u.model(false).Groups, At: epoch.Add(-12 * time.Minute)}
	}
	roster := rosterOf(names...)
	s.recall(all, roster, epoch)
	s.reconcile(roster, epoch)
	for _, name := range names {
		s.apply(sourceEvent{feed: roster[name], started: true}, epoch)
	}
	return s
}

func (s *state) fail(name string, now time.Time) {
	s.apply(sourceEvent{feed: s.sources[name].feed, ended: true, err: errors.New("it is away")}, now)
}

// With what was kept of it, a source that is away is served as it was before the start, at once; the others as they are. A
// source that says nothing is waited for until its deadline.
func TestAStartWhileASourceIsAway(t *testing.T) {
	had := map[string]update{"a": {"x": "1", "y": "1"}}
	s := recalled(had, nil, "a", "b")
	due := func(want bool, when string) {
		t.Helper()
		if _, is := s.debounce(Debounce{}); is != want {
			t.Errorf("%s: a mesh is due: %t", when, is)
		}
	}
	due(false, "nothing was said")
	s.fail("a", epoch)
	due(false, "b has not synced")
	at{0, "b", update{"z": "1"}, true, false}.apply(s)
	due(true, "b has synced")
	if mesh, _ := s.flush(epoch); !slices.Equal(hosts(mesh), []string{"x1", "y1", "z1"}) {
		t.Errorf("the first mesh has %v", hosts(mesh))
	}
	now := s.report("a")
	want := "source a: 2 groups are from before the start, of 2025-12-31T23:48:00Z, then 12m0s old: they stay until it is whole"
	if now.Remembered != 2 || now.Age != "12m0s" || !slices.Contains(now.Lines(), want) {
		t.Errorf("the status is %+v, %q", now, now.Lines())
	}
	if first := s.journal.messages[0]; first.text != "groups of before the start are served until their source is whole" {
		t.Errorf("logged is %q", first.text)
	}

	s.apply(sourceEvent{feed: s.sources["a"].feed, started: true}, epoch)
	at{10, "a", update{"x": "2"}, false, false}.apply(s)
	if mesh, _ := s.flush(epoch); !slices.Equal(hosts(mesh), []string{"x2", "y1", "z1"}) || s.report("a").Remembered != 1 {
		t.Errorf("when it has sent one group there are %v, the status is %+v", hosts(mesh), s.report("a"))
	}
	at{20, "a", update{}, true, false}.apply(s)
	if mesh, _ := s.flush(epoch); !slices.Equal(hosts(mesh), []string{"x2", "z1"}) {
		t.Errorf("when it is whole there are %v", hosts(mesh))
	}
	if now := s.report("a"); now.Remembered != 0 || !now.RememberedAt.IsZero() || len(now.Lines()) > 0 {
		t.Errorf("when it is whole the status is %+v, %q", now, now.Lines())
	}

	s = recalled(had, nil, "a")
	s.expire(epoch.Add(29 * time.Second))
	due(false, "silent, before its deadline")
	s.expire(epoch.Add(30 * time.Second))
	due(true, "silent, after its deadline")
	if now := s.report("a"); now.Awaited || !strings.Contains(strings.Join(now.Lines(), "\n"), "what it had before the start is served") {
		t.Errorf("the status is %+v, %q", now, now.Lines())
	}
}

// A part that cannot be read, or a record without a good form, is served as before the start; the rest as it is.
func TestAStartWithAPartThatCannotBeRead(t *testing.T) {
	for name, u := range map[string]model.Update{
		"a part of it":              {Groups: map[string]model.Group{"part": {Faults: []string{"line 3"}, Unread: true}}, Synced: true},
		"a record that stands":      {Stands: []string{"y"}, Synced: true},
		"settings that are refused": {Groups: map[string]model.Group{"y": {Faults: []string{"line 3"}}}},
	} {
		s := recalled(map[string]update{"a": {"y": "1"}}, nil, "a", "b")
		at{0, "b", update{"z": "1"}, true, false}.apply(s)
		if u.Groups == nil {
			u.Groups = map[string]model.Group{}
		}
		if u.Synced {
			u.Groups["x"] = update{"x": "1"}.model(true).Groups["x"]
		}
		s.apply(sourceEvent{feed: s.sources["a"].feed, update: u}, epoch)
		if _, due := s.debounce(Debounce{}); !due {
			t.Errorf("%s: nothing is due", name)
		}
		mesh, _ := s.flush(epoch)
		if got := hosts(mesh); !slices.Contains(got, "y1") || u.Synced != slices.Contains(got, "x1") {
			t.Errorf("%s: there are %v", name, got)
		}
	}
}

// A group that its source has made before it knew all that the record names does not replace what is remembered of it; one that it did
// not have is taken, and replaced by its next form.
func TestAGroupThatWaits(t *testing.T) {
	s := recalled(map[string]update{"a": {"x": "1", "y": "1"}}, nil, "a")
	send := func(u update, waits, synced bool, want ...string) {
		t.Helper()
		m := u.model(synced)
		for key, group := range m.Groups {
			group.Waits = waits
			m.Groups[key] = group
		}
		s.apply(sourceEvent{feed: s.sources["a"].feed, update: m}, epoch)
		s.expire(epoch.Add(30 * time.Second))
		if mesh, _ := s.flush(epoch); !slices.Equal(hosts(mesh), want) {
			t.Errorf("after %v there are %v, want %v", u, hosts(mesh), want)
		}
	}
	send(update{"x": "2", "z": "2"}, true, false, "x1", "y1", "z2")
	send(update{"x": "3", "z": "3"}, true, false, "x1", "y1", "z3")
	if now := s.report("a"); now.Remembered != 2 {
		t.Errorf("the status is %+v", now)
	}
	send(update{"x": "4"}, false, false, "x4", "y1", "z3")
	send(update{"x": "5"}, true, false, "x5", "y1", "z3")
	send(update{"y": "6"}, true, true, "x5", "y1", "z3") // it stands: the source has it
	send(update{"y": "7"}, true, false, "x5", "y7", "z3")
}

// A registry that lost its data while discovery was away: what it had is held, though no mesh was pushed yet.
func TestASourceLosesMostDuringARestart(t *testing.T) {
	s := recalled(map[string]update{"a": {"x": "1", "y": "1", "z": "1"}}, nil, "a")
	at{0, "a", update{"z": "1"}, true, false}.apply(s)
	if mesh, _ := s.flush(epoch); !slices.Equal(hosts(mesh), []string{"z1"}) { // two are no mass
		t.Errorf("there are %v", hosts(mesh))
	}
	for name, u := range map[string]update{"it sends nothing": {}, "it says that they are gone": {"x": "", "y": "", "z": ""}} {
		s = recalled(map[string]update{"a": {"x": "1", "y": "1", "z": "1"}}, nil, "a")
		at{0, "a", u, true, false}.apply(s)
		mesh, _ := s.flush(epoch)
		if now := s.report("a"); len(hosts(mesh)) != 3 || now.Held != 3 || now.Lost != "3 of 3 hosts" {
			t.Errorf("%s: there are %v, the status is %+v", name, hosts(mesh), now)
		}
		if s.expire(epoch.Add(30 * time.Second)); len(hosts(s.next())) != 0 {
			t.Errorf("%s: after the time there are %v", name, hosts(s.next()))
		}
	}
}

// A source that another one adds is served until that one is whole; then it goes, unless it was added. Sources that nobody
// adds are not used.
func TestSourcesOfBeforeTheStart(t *testing.T) {
	adder := func(name string) string {
		if strings.HasPrefix(name, "optional/") {
			return "adder"
		}
		return ""
	}
	had := map[string]update{"a": {"x": "1"}, "adder": {}, "optional/1": {"y": "1"}, "optional/2": {"z": "1"}, "other": {"w": "1"}}
	s := recalled(had, adder, "a", "adder")
	s.fail("a", epoch)
	s.fail("adder", epoch)
	if mesh, _ := s.flush(epoch); !slices.Equal(hosts(mesh), []string{"x1", "y1", "z1"}) {
		t.Errorf("there are %v", hosts(mesh))
	}
	if last := s.journal.messages[slices.IndexFunc(s.journal.messages, func(m message) bool { return slices.Contains(m.args, any("other")) })]; last.level != slog.LevelWarn {
		t.Errorf("of the source that nobody adds the log has %+v", last)
	}
	roster := map[string]*feed{"a": s.sources["a"].feed, "adder": s.sources["adder"].feed, "optional/1": {name: "optional/1"}}
	s.reconcile(roster, epoch)
	s.apply(sourceEvent{feed: roster["adder"], started: true}, epoch)
	at{0, "adder", nil, true, false}.apply(s)
	if mesh, _ := s.flush(epoch); !slices.Equal(hosts(mesh), []string{"x1", "y1"}) {
		t.Errorf("when the adder is whole there are %v", hosts(mesh))
	}
	if got := s.takeGone(); !slices.Equal(got, []string{"optional/2"}) {
		t.Errorf("gone are %v", got)
	}
}

// A source is kept when it has synced, five seconds after a change, and every ten minutes; not before there is a mesh, and not
// while it is away.
func TestToKeep(t *testing.T) {
	s := recalled(nil, nil, "a", "b")
	want := func(ms int, final bool, names ...string) {
		t.Helper()
		if got := s.toKeep(epoch.Add(time.Duration(ms)*time.Millisecond), final); !slices.Equal(got, names) {
			t.Errorf("at %d ms: %v, want %v", ms, got, names)
		}
	}
	at{0, "a", update{"x": "1"}, true, false}.apply(s)
	want(60_000, true)
	at{0, "b", update{}, true, false}.apply(s)
	s.flush(epoch)
	want(4_999, false)
	want(5_000, false, "a", "b")
	at{6_000, "a", update{"x": "2"}, false, false}.apply(s)
	at{9_000, "a", update{"x": "3"}, false, false}.apply(s)
	want(10_999, false)
	want(11_000, false, "a")
	at{12_000, "a", update{"x": "4"}, false, false}.apply(s)
	want(12_000, true, "a")
	s.fail("a", epoch)
	want(605_000, false, "b")
	at{620_000, "a", update{"x": "5"}, false, true}.apply(s)
	want(700_000, true)
	at{700_000, "a", update{}, true, false}.apply(s)
	want(705_000, false, "a")
}

// kept is a Keeper that notes what it gets.
type keeper struct {
	start time.Time
	said  []string
}

func (k *keeper) Keep(source string, groups map[string]model.Group, at time.Time) {
	keys := []string{}
	for key, group := range groups {
		keys = append(keys, key+group.Services[0].Host)
	}
	slices.Sort(keys)
	k.said = append(k.said, at.Sub(k.start).String()+" "+source+" "+strings.Join(keys, " "))
}

func (k *keeper) Forget(source string) { k.said = append(k.said, "forget "+source) }

// A server hands over what it serves, begins with it at the next start, and hands over the last changes at its end.
func TestServerKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, k, r := newFake(), &keeper{start: time.Now()}, &recorder{start: time.Now()}
		s := &Server{
			Sources: map[string]Source{"a": a, "b": newFake()}, Pusher: r, Log: slog.New(slog.DiscardHandler), Keeper: k,
			Patience: Patience{Sync: 30 * time.Second}, random: func() float64 { return 0 },
			Remembered: map[string]Remembered{"b": {update{"y": "1"}.model(true).Groups, time.Now()}},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		a.updates <- update{"x": "1"}.model(true)
		pass(time.Minute)
		r.want(t, push{30 * time.Second, []string{"x1", "y1"}})
		a.updates <- update{"x": "2"}.model(true)
		s.Remove("b")
		pass(time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		want := []string{"30s a xx1", "forget b", "1m1s a xx2"}
		if diff := cmp.Diff(want, k.said); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// shelf is a LastGood: what it had at the start, and what it has been told to keep.
type shelf struct{ read, kept map[string]model.Group }

func (f shelf) Form(_, key string) (model.Group, bool) { g, kept := f.read[key]; return g, kept }

func (f shelf) Keep(_ string, forms map[string]model.Group) { clear(f.kept); maps.Copy(f.kept, forms) }

// A record that is broken when discovery starts is served in its last good form, if that is kept; its own good forms are handed over while it is broken.
func TestLastGoodForms(t *testing.T) {
	entry := func(host string) model.Group {
		return model.Group{Objects: []*model.Object{{
			Meta: model.Meta{Kind: "ServiceEntry", Namespace: "shop", Name: host}, Spec: &networking.ServiceEntry{Hosts: []string{host}},
		}}}
	}
	policy := func(name string, closed bool) model.Group {
		g := model.Group{Objects: []*model.Object{{
			Meta: model.Meta{Kind: "PeerAuthentication", Namespace: "shop", Name: name, Closed: closed}, Spec: &security.PeerAuthentication{},
		}}}
		if closed {
			g.Faults = []string{"wrong"}
		}
		return g
	}
	wrong, unread := model.Group{Faults: []string{"wrong"}}, model.Group{Faults: []string{"403"}, Unread: true}
	type groups = map[string]model.Group
	for name, test := range map[string]struct {
		kept         groups
		updates      []model.Update
		served, then string // objects; and the keys that are kept afterwards
	}{
		"kept":                  {groups{"x": entry("old")}, []model.Update{{Groups: groups{"x": wrong}, Synced: true}}, "old", "x"},
		"not kept":              {nil, []model.Update{{Groups: groups{"x": wrong}, Synced: true}}, "", ""},
		"of another record":     {groups{"y": entry("old")}, []model.Update{{Groups: groups{"x": wrong}, Synced: true}}, "", ""},
		"not broken":            {groups{"x": entry("old")}, []model.Update{{Groups: groups{"x": entry("new")}, Synced: true}}, "new", ""},
		"gone":                  {groups{"x": entry("old")}, []model.Update{{Groups: groups{}, Synced: true}}, "", ""},
		"a part cannot be read": {groups{"x": entry("old")}, []model.Update{{Groups: groups{"x": unread}, Synced: true}}, "", "x"},
		"a policy":              {groups{"x": policy("old", false)}, []model.Update{{Groups: groups{"x": policy("shut", true)}, Synced: true}}, "old", "x"},
		"a policy that is not":  {nil, []model.Update{{Groups: groups{"x": policy("shut", true)}, Synced: true}}, "shut", ""},
		"not synced":            {groups{"x": entry("old"), "y": entry("other")}, []model.Update{{Groups: groups{"x": wrong}}}, "old", "x y"},
		"broken later":          {nil, []model.Update{{Groups: groups{"x": entry("new")}, Synced: true}, {Groups: groups{"x": wrong}}}, "new", "x"},
		"an own form is newer":  {groups{"x": entry("old")}, []model.Update{{Groups: groups{"x": entry("new")}, Synced: true}, {Groups: groups{"x": wrong}}}, "new", "x"},
		"mended":                {groups{"x": entry("old")}, []model.Update{{Groups: groups{"x": wrong}, Synced: true}, {Groups: groups{"x": entry("new")}}}, "new", ""},
		"removed while it is":   {groups{"x": entry("old")}, []model.Update{{Groups: groups{"x": wrong}, Synced: true}, {Groups: groups{"x": {}}}}, "", ""},
		"created again, wrong":  {groups{"x": entry("old")}, []model.Update{{Groups: groups{"x": wrong}, Synced: true}, {Groups: groups{"x": {}}}, {Groups: groups{"x": wrong}}}, "", ""},
		"a part is not read yet": {
			groups{"x": entry("old"), "y": entry("other")},
			[]model.Update{{Groups: groups{"z": unread}, Synced: true}, {Groups: groups{"x": wrong}}},
			"old", "x y",
		},
		"removed, and wrong again": {nil, []model.Update{{Groups: groups{"x": entry("new")}, Synced: true}, {Groups: groups{"x": {}}}, {Groups: groups{"x": wrong}}}, "", ""},
	} {
		s, kept := stateOf("a"), shelf{test.kept, maps.Clone(test.kept)}
		if kept.kept == nil {
			kept.kept = groups{}
		}
		s.lastGood = kept
		for _, u := range test.updates {
			s.apply(sourceEvent{feed: s.sources["a"].feed, update: u}, epoch)
			for source, forms := range s.forms() {
				kept.Keep(source, forms)
			}
		}
		m, _ := s.flush(epoch)
		var served []string
		for _, o := range m.Objects() {
			served = append(served, o.Name)
		}
		if got := strings.Join(served, " "); got != test.served {
			t.Errorf("%s: served is %q, want %q", name, got, test.served)
		}
		if got := strings.Join(slices.Sorted(maps.Keys(kept.kept)), " "); got != test.then {
			t.Errorf("%s: kept is %q, want %q", name, got, test.then)
		}
		if faults := test.updates[len(test.updates)-1].Groups["x"].Faults; (len(s.sources["a"].faults["x"]) > 0) != (len(faults) > 0) {
			t.Errorf("%s: its faults are %q", name, s.sources["a"].faults["x"])
		}
	}
}
