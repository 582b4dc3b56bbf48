package consul

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

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
