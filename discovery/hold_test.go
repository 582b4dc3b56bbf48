package discovery

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// All objects of a kind that go in one update are held, of whatever source; those that go one by one are deleted by somebody.
func TestAllObjectsOfAKindGo(t *testing.T) {
	s := stateOf("a")
	s.patience.Wipe = 30 * time.Second
	rules, keys := map[string]model.Group{}, []string{}
	for i := range 4 {
		key := fmt.Sprint("rule", i)
		keys, rules[key] = append(keys, key), model.Group{Objects: []*model.Object{{Meta: model.Meta{Kind: "VirtualService", Name: key}}}}
	}
	tell := func(groups map[string]model.Group) SourceStatus {
		s.apply(sourceEvent{feed: s.sources["a"].feed, update: model.Update{Groups: groups, Synced: true}}, epoch)
		s.flush(epoch)
		return s.report("a")
	}
	tell(rules)
	if now := tell(nothingOf(keys[:3])); now.Held > 0 || now.Objects != 1 {
		t.Errorf("one rule is left, and it is %+v", now)
	}
	tell(rules)
	if now := tell(nothingOf(keys)); now.Held != 4 || now.Lost != "all 4 objects of kind VirtualService" || now.Objects != 4 {
		t.Errorf("none is left, and it is %+v", now)
	}
	s.release("a", epoch)
	if now := s.report("a"); now.Objects != 0 {
		t.Errorf("released it is %+v", now)
	}
	tell(rules)
	for _, key := range keys {
		if now := tell(nothingOf([]string{key})); now.Held > 0 {
			t.Errorf("%s is held: %+v", key, now)
		}
	}
}

// What a running source removes is held as well if it is most of what the source has. What goes while that lasts joins it.
func TestARunningSourceLosesMost(t *testing.T) {
	groups := func(hosts ...string) map[string]model.Group {
		out := map[string]model.Group{}
		for i := range 10 {
			if host := fmt.Sprint("h", i); slices.Contains(hosts, host) {
				out[host] = model.Group{Services: []*model.Service{{Right: model.RightFull, Host: host}}}
			}
		}
		return out
	}
	gone := func(hosts ...string) map[string]model.Group { return nothingOf(hosts) }
	all := []string{"h0", "h1", "h2", "h3", "h4", "h5"}
	type step struct {
		ms     int
		source string // "" if only the time passes
		groups map[string]model.Group
		want   []string
		held   int
	}
	const wipe = 30 * time.Second
	for name, steps := range map[string][]step{
		"a few go after their second": {{0, "a", gone("h0", "h1", "h2"), all, 0}, {1000, "", nil, all[3:], 0}},
		"most are held until the time is over": {
			{0, "a", gone(all[:4]...), all, 0},
			{1000, "", nil, all, 4},
			{30999, "", nil, all, 4},
			{31000, "", nil, all[4:], 0},
		},
		"one after the other within the second": {
			{0, "a", gone("h0", "h1"), all, 0}, {400, "a", gone("h2"), all, 0}, {800, "a", gone("h3"), all, 0}, {1000, "", nil, all, 4},
		},
		"a further one joins, with the same end": {
			{0, "a", gone(all[:4]...), all, 0}, {1000, "", nil, all, 4}, {9000, "a", gone("h4"), all, 4}, {10000, "", nil, all, 5}, {31000, "", nil, all[5:], 0},
		},
		"they come back": {
			{0, "a", gone(all...), all, 0}, {1000, "", nil, all, 6}, {2000, "a", groups(all...), all, 0}, {40000, "", nil, all, 0},
		},
		"some come back": {
			{0, "a", gone(all...), all, 0}, {1000, "", nil, all, 6}, {2000, "a", groups("h0"), all, 5}, {31000, "", nil, all[:1], 0},
		},
		"removed again, they do not stay longer": {
			{0, "a", gone(all[:4]...), all, 0}, {1000, "", nil, all, 4}, {20000, "a", gone(all[:4]...), all, 4}, {31000, "", nil, all[4:], 0},
		},
		"another source has them": {
			{0, "b", groups("h0", "h1", "h2"), slices.Sorted(slices.Values(slices.Concat(all, all[:3]))), 0},
			{0, "a", gone(all[:4]...), slices.Sorted(slices.Values(slices.Concat(all, all[:3]))), 0},
			{1000, "", nil, all[:3:3], 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(Patience{Linger: time.Second, Wipe: wipe})
			s.reconcile(rosterOf("a", "b"), epoch)
			tell := func(source string, groups map[string]model.Group, synced bool, now time.Time) {
				s.apply(sourceEvent{feed: s.sources[source].feed, update: model.Update{Groups: groups, Synced: synced}}, now)
			}
			tell("b", nil, true, epoch)
			tell("a", groups(all...), true, epoch)
			s.flush(epoch)
			for i, step := range steps {
				now := epoch.Add(time.Duration(step.ms) * time.Millisecond)
				if step.source != "" {
					tell(step.source, step.groups, false, now)
				}
				s.expire(now)
				want := step.want
				if name == "another source has them" && i == len(steps)-1 {
					want = []string{"h0", "h1", "h2", "h4", "h5"}
				}
				if diff := cmp.Diff(slices.Compact(slices.Clone(want)), slices.Compact(hosts(s.next()))); diff != "" {
					t.Errorf("step %d, hosts (-want +got):\n%s", i, diff)
				}
				if got := s.report("a").Held; got != step.held {
					t.Errorf("step %d: %d groups are held, want %d", i, got, step.held)
				}
				censusFits(t, s)
			}
		})
	}
}

// Endpoints that lapse are held if they are most of the source's, and only then. Those that are removed by name go.
func TestEndpointsLapse(t *testing.T) {
	of := func(n int) model.Group {
		service := &model.Service{Right: model.RightFull, Host: "h"}
		for i := range n {
			service.Endpoints = append(service.Endpoints, model.Endpoint{Address: fmt.Sprint("10.0.0.", i)})
		}
		return model.Group{Services: []*model.Service{service}}
	}
	lapsed := func(n int) model.Group {
		g := of(n)
		g.Lapsed = true
		return g
	}
	for name, test := range map[string]struct {
		then       model.Group
		want, held int
		later      model.Group // a second later
		last       int         // endpoints after that
		remembered bool        // the first ones are from before the start
	}{
		"most lapse":                      {lapsed(1), 20, 1, lapsed(1), 20, false},
		"most lapse, one more is back":    {lapsed(1), 20, 1, of(2), 20, false},
		"most lapse, and most come back":  {lapsed(1), 20, 1, of(19), 19, false},
		"half lapse":                      {lapsed(10), 10, 0, lapsed(10), 10, false},
		"most are removed by name":        {of(1), 1, 0, of(1), 1, false},
		"most lapse, and more are gone":   {lapsed(3), 20, 1, lapsed(1), 20, false},
		"the record itself is gone later": {lapsed(1), 20, 1, model.Group{}, 20, false},
		"most lapse across a restart":     {lapsed(1), 20, 1, of(19), 19, true},
		"half lapse across a restart":     {lapsed(10), 10, 0, lapsed(10), 10, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(Patience{Linger: time.Second, Wipe: time.Minute})
			s.reconcile(rosterOf("a"), epoch)
			tell := func(g model.Group, now time.Time) {
				s.apply(sourceEvent{feed: s.sources["a"].feed, update: model.Update{Groups: map[string]model.Group{"h": g}, Synced: true}}, now)
				s.expire(now)
			}
			served := func() (n int) {
				for _, service := range s.next().Services() {
					n += len(service.Endpoints)
				}
				return n
			}
			if test.remembered {
				s = newState(Patience{Linger: time.Second, Wipe: time.Minute})
				s.recall(map[string]Remembered{"a": {map[string]model.Group{"h": of(20)}, epoch}}, rosterOf("a"), epoch)
				s.reconcile(rosterOf("a"), epoch)
			} else {
				tell(of(20), epoch)
				s.flush(epoch)
			}
			tell(test.then, epoch.Add(time.Second))
			if got, held := served(), s.report("a").Held; got != test.want || held != test.held {
				t.Errorf("%d endpoints are served and %d groups held, want %d and %d", got, held, test.want, test.held)
			}
			tell(test.later, epoch.Add(2*time.Second))
			s.expire(epoch.Add(4 * time.Second))
			if got := served(); got != test.last {
				t.Errorf("a second later %d endpoints are served, want %d", got, test.last)
			}
			if s.expire(epoch.Add(2 * time.Minute)); s.report("a").Held != 0 {
				t.Errorf("after its time the hold goes on: %+v", s.report("a"))
			}
			censusFits(t, s)
		})
	}
}

// censusFits compares what is counted of sources with what they have.
func censusFits(t *testing.T, s *state) {
	t.Helper()
	for name, c := range s.sources {
		want := model.NewCensus()
		for _, g := range c.groups {
			want.Count(g, 1)
		}
		if diff := cmp.Diff(want, c.census, cmp.AllowUnexported(model.Census{})); diff != "" {
			t.Errorf("source %s (-has +counted):\n%s", name, diff)
		}
	}
}

// An operator ends a hold; the log and the status name it before.
func TestRelease(t *testing.T) {
	s := stateOf("a")
	at{0, "a", hosts0(9), true, false}.apply(s)
	s.flush(epoch)
	at{0, "a", update{"h0.": "", "h1.": "", "h2.": "", "h3.": "", "h4.": ""}, false, false}.apply(s)
	now := s.report("a")
	if now.Held != 5 || now.Lost != "5 of 9 hosts" || !slices.ContainsFunc(now.Lines(), func(l string) bool { return strings.Contains(l, "discovery release a") }) {
		t.Errorf("the status is %+v, lines %q", now, now.Lines())
	}
	s.release("b", epoch)
	s.release("a", epoch.Add(time.Second))
	if got := len(hosts(s.next())); got != 4 || s.report("a").Held != 0 {
		t.Errorf("released, %d hosts are served, want 4: %+v", got, s.report("a"))
	}
	var said []string
	for _, m := range s.journal.messages {
		said = append(said, m.level.String()+" "+m.text)
	}
	if len(said) != 2 || !strings.HasPrefix(said[0], "ERROR ") || !strings.HasPrefix(said[1], "WARN ") {
		t.Errorf("the log has %q", said)
	}
}

// A running server releases a source when it is asked, and says what cannot be released.
func TestServerReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newFake()
		s, r := serve(t, map[string]Source{"a": a})
		a.updates <- hosts0(4).model(true)
		pass(time.Second)
		a.updates <- update{"h0.": "", "h1.": "", "h2.": ""}.model(false)
		pass(time.Second)
		before := slices.Clone(r.pushes)
		if got := len(before); got != 1 {
			t.Fatalf("%d pushes, want none after the first: %v", got, r.pushes)
		}
		for source, want := range map[string]string{"b": "no such source", "a": ""} {
			if groups, err := s.Release(source); want == "" && (err != nil || groups != 3) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("release %s: %d groups, %v", source, groups, err)
			}
		}
		r.want(t, before[0], push{2 * time.Second, []string{"h3.1"}})
		if _, err := s.Release("a"); err == nil || !strings.Contains(err.Error(), "no groups that are held") {
			t.Errorf("released again: %v", err)
		}
	})
}

// What a source has itself held is not held again.
func TestWhatIsCertainIsNotHeld(t *testing.T) {
	for certain, want := range map[bool]int{false: 5, true: 0} {
		s := stateOf("a")
		at{0, "a", hosts0(5), true, false}.apply(s)
		s.flush(epoch)
		gone := map[string]model.Group{}
		for key := range hosts0(5) {
			gone[key] = model.Group{}
		}
		s.apply(sourceEvent{feed: s.sources["a"].feed, update: model.Update{Groups: gone, Certain: certain}}, epoch)
		if got := len(hosts(s.next())); got != want || s.report("a").Held != want {
			t.Errorf("certain: %t: %d hosts are served, %d groups held, want %d", certain, got, s.report("a").Held, want)
		}
	}
}

// holder is a source that holds by itself.
type holder struct {
	fake
	objects  atomic.Int64
	released chan struct{}
}

func (h *holder) Held() (lost string, groups int, since, until time.Time) {
	return "9 of 10 services", int(h.objects.Load()), epoch, epoch.Add(time.Minute)
}

func (h *holder) Release() { h.released <- struct{}{} }

// What a source itself holds is named as what discovery holds of it, and released in the same way.
func TestServerReleasesWhatASourceHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &holder{fake: newFake(), released: make(chan struct{}, 1)}
		s, _ := serve(t, map[string]Source{"a": a})
		a.updates <- hosts0(4).model(true)
		pass(time.Second)
		if _, err := s.Release("a"); err == nil || s.Statuses()[0].Held != 0 {
			t.Errorf("it holds nothing, and is released: %v, %+v", err, s.Statuses())
		}
		a.objects.Store(9)
		want := "source a: 9 of 10 services are gone at once, since 2026-01-01T00:00:00Z: 9 groups are held until 2026-01-01T00:01:00Z, or until `discovery release a`"
		if got := s.Statuses()[0].Lines(); !slices.Contains(got, want) {
			t.Errorf("said is %q, want %q", got, want)
		}
		groups, err := s.Release("a")
		if <-a.released; groups != 9 || err != nil {
			t.Errorf("released are %d, %v", groups, err)
		}
		both := SourceStatus{Held: 2, Lost: "2 of 3 hosts", Since: epoch.Add(-time.Second), Until: epoch.Add(time.Hour)}
		both.hold("9 of 10 services", 9, epoch, epoch.Add(time.Minute))
		if both.Held != 11 || both.Lost != "2 of 3 hosts, 9 of 10 services" || !both.Since.Equal(epoch.Add(-time.Second)) || !both.Until.Equal(epoch.Add(time.Hour)) {
			t.Errorf("both hold %+v", both)
		}
	})
}

// A service that its registry removes is served for a second, and goes at once when another one has its host or its
// address. It is back at no cost when the registry has it again.
func TestRemovedServicesLinger(t *testing.T) {
	service := func(host string, addresses ...string) model.Group {
		return model.Group{Services: []*model.Service{{Right: model.RightFull, Host: host, Namespace: "default", Addresses: addresses}}}
	}
	entry := func(host, address string) model.Group {
		return model.Group{Objects: []*model.Object{{
			Meta: model.Meta{Kind: "ServiceEntry", Namespace: "default", Name: host},
			Spec: &networking.ServiceEntry{Hosts: []string{host}, Addresses: []string{address}},
		}}}
	}
	type step struct {
		ms     int
		source string
		groups map[string]model.Group // nil if only the time passes
		want   []string               // hosts
		pushed bool
		does   int
	}
	const restarts, syncs = 1, 2 // of a source: it is started again, and sends y but no x
	gone := model.Group{}
	groups := func(key string, g model.Group) map[string]model.Group { return map[string]model.Group{key: g} }
	removed := step{0, "a", groups("x", gone), []string{"x", "y"}, false, 0}
	for name, steps := range map[string][]step{
		"a second later it is gone": {removed, {999, "a", nil, []string{"x", "y"}, false, 0}, {1000, "a", nil, []string{"y"}, true, 0}},
		"removed again, it does not stay longer": {
			removed, {500, "a", groups("x", gone), []string{"x", "y"}, false, 0}, {1000, "a", nil, []string{"y"}, true, 0},
		},
		"it comes back": {
			removed, {100, "a", groups("x", service("x", "10.0.0.1")), []string{"x", "y"}, false, 0}, {5000, "a", nil, []string{"x", "y"}, false, 0},
		},
		"it comes back with another address": {
			removed, {100, "a", groups("x", service("x", "10.0.0.9")), []string{"x", "y"}, true, 0}, {5000, "a", nil, []string{"x", "y"}, false, 0},
		},
		"another source has its host":         {removed, {100, "b", groups("x", service("x", "10.0.0.9")), []string{"x", "y"}, true, 0}},
		"another service has its address":     {removed, {100, "a", groups("z", service("z", "10.0.0.1")), []string{"y", "z"}, true, 0}},
		"in the same update":                  {{0, "a", map[string]model.Group{"x": gone, "z": service("z", "10.0.0.1")}, []string{"y", "z"}, true, 0}},
		"a ServiceEntry has its address":      {removed, {100, "b", groups("z", entry("z", "10.0.0.1")), []string{"y", "z"}, true, 0}},
		"another service has another address": {removed, {100, "a", groups("z", service("z", "10.0.0.3")), []string{"x", "y", "z"}, true, 0}},
		"an object goes at once":              {{0, "b", groups("o", entry("o", "10.0.0.7")), []string{"o", "x", "y"}, true, 0}, {1, "b", groups("o", gone), []string{"x", "y"}, true, 0}},
		"what was not there is not removed":   {{0, "a", groups("z", gone), []string{"x", "y"}, false, 0}, {5000, "a", nil, []string{"x", "y"}, false, 0}},
		"its source syncs again without it":   {removed, {100, "a", nil, []string{"x", "y"}, false, restarts}, {200, "a", nil, []string{"y"}, true, syncs}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(Patience{Linger: time.Second})
			s.reconcile(rosterOf("a", "b"), epoch)
			tell := func(source string, groups map[string]model.Group, synced bool, now time.Time) {
				s.apply(sourceEvent{feed: s.sources[source].feed, update: model.Update{Groups: groups, Synced: synced}}, now)
			}
			tell("b", nil, true, epoch)
			tell("a", map[string]model.Group{"x": service("x", "10.0.0.1"), "y": service("y", "10.0.0.2")}, true, epoch)
			s.flush(epoch)
			for i, step := range steps {
				now := epoch.Add(time.Duration(step.ms) * time.Millisecond)
				switch step.does {
				case restarts:
					s.apply(sourceEvent{feed: s.sources[step.source].feed, started: true}, now)
				case syncs:
					tell(step.source, groups("y", service("y", "10.0.0.2")), true, now)
				default:
					tell(step.source, step.groups, false, now)
				}
				s.expire(now)
				if _, due := s.debounce(Debounce{}); due != step.pushed {
					t.Errorf("step %d: a push is due: %t, want %t", i, due, step.pushed)
				}
				mesh, _ := s.flush(epoch)
				if diff := cmp.Diff(step.want, slices.Compact(hosts(mesh))); diff != "" {
					t.Errorf("step %d (-want +got):\n%s", i, diff)
				}
			}
			if len(s.sources["a"].leaving) != 0 {
				if wake, ok := s.wake(Debounce{}); !ok || wake.After(epoch.Add(2*time.Second)) {
					t.Errorf("the loop wakes at %v, %t, want in time for what lingers", wake, ok)
				}
			}
		})
	}
}
