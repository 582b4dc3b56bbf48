package consul

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func sorted(n names) []string { return slices.Sorted(maps.Keys(n)) }

func TestNextIndex(t *testing.T) {
	for _, tt := range []struct {
		name        string
		last, got   uint64
		next        uint64
		moved, lost bool
	}{
		{"the first answer", 0, 7, 7, true, false},
		{"nothing changed, the time is over", 7, 7, 7, false, false},
		{"a change", 7, 9, 9, true, false},
		{"a snapshot was restored", 9, 3, 0, true, true},
		{"the answer after that", 0, 3, 3, true, false},
	} {
		if next, moved, lost := nextIndex(tt.last, tt.got); next != tt.next || moved != tt.moved || lost != tt.lost {
			t.Errorf("%s: %d, %t, %t, want %d, %t, %t", tt.name, next, moved, lost, tt.next, tt.moved, tt.lost)
		}
	}
}

// Each list names the changed services, and the others stay as they are.
func TestView(t *testing.T) {
	status := func(service, id, status string) *healthCheck {
		return &healthCheck{Node: "n1", CheckID: id, ServiceName: service, ServiceID: id, Status: status}
	}
	node := func(name, address string) *nodeEntry { return &nodeEntry{Node: name, Address: address} }
	v := newView()
	tags := map[string][]string{"consul": {}, "a": {"x", "y"}, "b": nil, "c": nil}
	v.services(tags)
	v.state(healthChecks{status("a", "a1", "passing"), status("b", "b1", "passing")})
	v.list([]*nodeEntry{node("n1", "10.0.0.1"), node("n2", "10.0.0.2")})
	for name, at := range map[string]string{"a": "n1", "b": "n1", "c": "n2"} {
		v.read(name, []*serviceEntry{{Node: node(at, "")}})
	}
	for _, tt := range []struct {
		name    string
		changed names
		want    []string
	}{
		{"tags in another order", first(v.services(map[string][]string{"consul": {"s"}, "a": {"y", "x"}, "b": {}, "c": nil})), nil},
		{"another tag", first(v.services(map[string][]string{"a": {"y", "z"}, "b": nil, "c": nil})), []string{"a"}},
		{"another output", v.state(healthChecks{status("a", "a1", "passing"), status("b", "b1", "passing")}), nil},
		{"another status", v.state(healthChecks{status("a", "a1", "critical"), status("b", "b1", "passing")}), []string{"a"}},
		{"a check has gone", v.state(healthChecks{status("a", "a1", "critical")}), []string{"b"}},
		{"a check of a node has come", v.state(healthChecks{status("a", "a1", "critical"), status("", "maintenance", "critical")}), []string{"a", "b"}},
		{"and has gone", v.state(healthChecks{status("a", "a1", "critical")}), []string{"a", "b"}},
		{"a check of another service", v.state(healthChecks{status("c", "a1", "critical")}), []string{"a", "c"}},
		{"a node has another address", v.list([]*nodeEntry{node("n1", "10.0.0.1"), node("n2", "10.0.0.9")}), []string{"c"}},
		{"a node has come", v.list([]*nodeEntry{node("n1", "10.0.0.1"), node("n2", "10.0.0.9"), node("n3", "10.0.0.3")}), nil},
		{"nothing", v.list([]*nodeEntry{nil, node("n3", "10.0.0.3"), node("n2", "10.0.0.9"), node("n1", "10.0.0.1")}), nil},
	} {
		if got := sorted(tt.changed); !slices.Equal(got, tt.want) {
			t.Errorf("%s: names %v, want %v", tt.name, got, tt.want)
		}
	}
	_, gone := v.services(map[string][]string{"a": {"y", "z"}})
	if got := sorted(gone); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("gone are %v, want b and c", got)
	}
	if len(v.on) != 1 || len(v.where) != 1 {
		t.Errorf("of services that are gone %v and %v are left", v.on, v.where)
	}
	if got := sorted(v.known(names{"a": true, "b": true})); !slices.Equal(got, []string{"a"}) {
		t.Errorf("known are %v, want a", got)
	}
}

func first(changed, _ names) names { return changed }

func TestRounds(t *testing.T) {
	began := time.Unix(1000, 0)
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	for _, tt := range []struct {
		name string
		do   func(r *rounds)
		due  time.Time
	}{
		{"nothing has changed", func(*rounds) {}, time.Time{}},
		{"a change that nothing names", func(r *rounds) { r.moved(7, at(0)) }, at(1)},
		{"one that a check names", func(r *rounds) { r.moved(7, at(0)); r.named(7) }, at(30)},
		{"one after which something else was named", func(r *rounds) { r.moved(7, at(0)); r.named(8) }, at(1)},
		{"changes all the time, all named", func(r *rounds) {
			for s := range 290 {
				r.moved(uint64(s), at(float64(s)))
				r.named(uint64(s))
			}
		}, at(300)},
		{"a named change and one that nothing names", func(r *rounds) { r.moved(7, at(0)); r.named(7); r.moved(8, at(5)) }, at(6)},
		{"a round", func(r *rounds) { r.moved(7, at(0)); r.done(at(1), at(3)) }, time.Time{}},
		{"a change while it ran", func(r *rounds) { r.moved(7, at(0)); r.moved(8, at(2)); r.done(at(1), at(9)) }, at(17)},
		{"a change after a short round", func(r *rounds) { r.moved(7, at(0)); r.done(at(1), at(1.1)); r.moved(8, at(1.1)) }, at(2.1)},
		{"indexes that went backwards", func(r *rounds) { r.lost(at(400)) }, at(101)},
	} {
		r := &rounds{}
		if tt.do(r); !r.due().Equal(tt.due) {
			t.Errorf("%s: a round is due at %s, want %s", tt.name, r.due().Sub(began), tt.due.Sub(began))
		}
	}
}

func TestQueue(t *testing.T) {
	q := newQueue()
	q.add(names{"a": true})
	q.add(names{"b": true})
	take := func(want string) {
		t.Helper()
		got, ok := q.next()
		if got != want || ok != (want != "") {
			t.Fatalf("next is %q, %t, want %q", got, ok, want)
		}
		if ok {
			q.begin(got)
		}
	}
	take("a")
	q.add(names{"a": true})
	take("b")
	take("") // a is being read: it is read again later
	q.end("a")
	take("a")
	q.add(names{"c": true})
	q.drop(names{"c": true})
	take("")
	q.end("a")
	if q.end("b"); !q.empty() {
		t.Errorf("it holds %+v", q)
	}
}

// A Consul that could not be reached and returns without its agents' services does not remove them: they are kept for a
// while, and reported. A service that is registered again is served in its new form; one that is not is removed when
// the time is over.
func TestServicesThatAreLackingAfterAnOutage(t *testing.T) {
	f := newFake(t)
	for _, name := range []string{"stays", "late", "gone", "early"} {
		f.put(entry(name, name+"-1", "10.0.0.1", 80))
	}
	s := f.source()
	s.keep = time.Hour
	all := func(groups map[string]model.Group) bool { return len(groups) == 4 }
	first := follower(t, s)
	first.until(all)
	f.breakWith(refuse)
	first.fails("read Consul's ") // refused, or cut

	f.breakWith(nil)
	f.remove("late")
	f.remove("gone")
	ctx, cancel := context.WithCancel(t.Context())
	second := &following{t, make(chan model.Update), make(chan error, 1), map[string]model.Group{}}
	go func() { second.done <- s.Run(ctx, second.updates) }()
	defer cancel()
	kept := func(g model.Group) bool {
		return len(g.Services) == 1 && len(g.Faults) == 1 && strings.Contains(g.Faults[0], "Consul lacks it since it was away")
	}
	second.until(func(groups map[string]model.Group) bool {
		return all(groups) && kept(groups["late"]) && kept(groups["gone"]) && !kept(groups["stays"])
	})
	f.remove("early") // Consul detects only now that the agent cannot be reached
	second.until(func(groups map[string]model.Group) bool { return all(groups) && kept(groups["early"]) })
	f.put(entry("late", "late-2", "10.0.0.2", 80))
	second.until(func(groups map[string]model.Group) bool {
		return len(groups["late"].Services) == 1 && groups["late"].Services[0].Endpoints[0].Address == "10.0.0.2" && len(groups["late"].Faults) == 0
	})
	cancel()
	if err := <-second.done; err != nil {
		t.Error(err)
	}

	s.keep = 500 * time.Millisecond // of what the run before has kept, too
	began, third := time.Now(), follower(t, s)
	third.groups = second.groups
	third.until(func(groups map[string]model.Group) bool {
		return len(groups) == 2 && len(groups["late"].Faults) == 0 && len(groups["stays"].Faults) == 0
	})
	if took := time.Since(began); took < s.keep/2 {
		t.Errorf("what Consul lacks is kept for %s, want %s", took, s.keep)
	}
	f.remove("stays") // from then on a removal takes effect at once
	third.until(func(groups map[string]model.Group) bool { return len(groups) == 1 && len(groups["late"].Services) == 1 })
}

// A removal of the first run takes effect at once, and so does one of a run that was not broken for long.
func TestARemovalIsOne(t *testing.T) {
	f := newFake(t)
	f.put(entry("web", "web-1", "10.0.0.1", 80))
	f.put(entry("db", "db-1", "10.0.0.1", 80))
	run := follower(t, f.source())
	run.until(func(groups map[string]model.Group) bool { return len(groups) == 2 })
	f.remove("web")
	run.until(func(groups map[string]model.Group) bool { return len(groups) == 1 && len(groups["db"].Faults) == 0 })
}

// A run that fails before it has sent everything loses nothing.
func TestAnOutageInAnOutage(t *testing.T) {
	l := lacking{before: map[string]model.Group{"a": {Services: []*model.Service{{Right: model.RightFull, Name: "a"}}}, "b": {Services: []*model.Service{{Right: model.RightFull, Name: "b"}}}}}
	told := map[string]model.Group{"b": {Services: []*model.Service{{Right: model.RightFull, Name: "b2"}}}, "c": {Faults: []string{"malformed"}}}
	if got := l.remember(told, false); len(got) != 2 || got["a"].Services[0].Name != "a" || got["b"].Services[0].Name != "b2" {
		t.Errorf("it remembers %+v", got)
	}
	if got := l.remember(told, true); len(got) != 1 {
		t.Errorf("it remembers %+v", got)
	}
}
