package discovery

import (
	"slices"
	"strings"
	"testing"
	"time"

	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// The policies of a source that is left without any object stay until they are back, or an operator releases the source; the rest is
// held, however little it is. That counts for what is remembered of before the start too.
func TestPoliciesOfAnEmptiedSource(t *testing.T) {
	policy := model.Group{Objects: []*model.Object{{Meta: model.Meta{Kind: "PeerAuthentication", Name: "p"}, Spec: &security.PeerAuthentication{}}}}
	entry := model.Group{Objects: []*model.Object{{Meta: model.Meta{Kind: "ServiceEntry", Name: "s"}}}}
	all := map[string]model.Group{"p": policy, "s": entry}
	for name, test := range map[string]struct {
		remembered, certain, emptied, wipe bool
		keys                               []string // with the time of the wipe rule over
	}{
		"it has held them itself":  {false, true, true, true, []string{"p"}},
		"it has not":               {false, false, true, true, []string{"p"}},
		"after a restart":          {true, false, true, true, []string{"p"}},
		"it has other objects":     {false, false, false, true, nil},
		"without the rule":         {false, false, true, false, nil},
		"a restart without a rule": {true, false, true, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, now := stateOf("a"), epoch
			if s.patience.Wipe = 0; test.wipe {
				s.patience.Wipe = 30 * time.Second
			}
			tell := func(u model.Update) SourceStatus {
				u.Synced = true
				s.apply(sourceEvent{feed: s.sources["a"].feed, update: u}, now)
				s.flush(now)
				return s.report("a")
			}
			gone := nothingOf([]string{"p", "s"})
			if test.remembered {
				c := s.sources["a"]
				c.memory = memory{now, 0, map[string]bool{}}
				for key, group := range all {
					c.take(key, group)
					c.memory.old[key] = true
				}
				c.resent, gone = map[string]bool{}, nil
			} else {
				tell(model.Update{Groups: all})
			}
			status := tell(model.Update{Groups: gone, Certain: test.certain, Emptied: test.emptied})
			if !test.wipe || !test.emptied {
				if status.Stranded+status.Held > 0 {
					t.Errorf("it is %+v", status)
				}
			} else if status.Stranded != 1 || !strings.Contains(strings.Join(status.Lines(), "\n"), "1 policies of it count until they are back") || (status.Held == 1) == test.certain {
				t.Errorf("it is %+v", status)
			}
			now = now.Add(time.Minute)
			s.endHold("a", s.sources["a"], now)
			if got := s.sources["a"].ordered(); !slices.Equal(got, test.keys) {
				t.Errorf("there are %v, want %v", got, test.keys)
			}
			if len(test.keys) == 0 {
				return
			}
			if status = tell(model.Update{Groups: map[string]model.Group{"s": entry}}); status.Stranded != 1 {
				t.Errorf("with another object it is %+v", status)
			}
			tell(model.Update{Groups: map[string]model.Group{"p": policy}})
			if status = tell(model.Update{Groups: nothingOf([]string{"p"})}); status.Stranded != 0 || slices.Contains(s.sources["a"].ordered(), "p") {
				t.Errorf("back, and removed from between others it is %+v", status)
			}
			tell(model.Update{Groups: map[string]model.Group{"p": policy}})
			tell(model.Update{Groups: nothingOf([]string{"p", "s"}), Certain: true, Emptied: true})
			s.release("a", now)
			if status = s.report("a"); status.Stranded != 0 || status.Objects != 0 {
				t.Errorf("released it is %+v", status)
			}
		})
	}
}

// What a source without any object has left counts over restarts too, whatever the source has by then: until it is back, or released.
func TestStrandedPoliciesOverARestart(t *testing.T) {
	object := func(kind, name string) model.Group {
		return model.Group{Objects: []*model.Object{{Meta: model.Meta{Kind: kind, Name: name}, Spec: &security.PeerAuthentication{}}}}
	}
	p, other := object("PeerAuthentication", "p"), object("ServiceEntry", "other")
	for name, test := range map[string]struct {
		next     model.Update
		stranded int
		keys     []string
	}{
		"still without any object": {model.Update{Emptied: true}, 1, []string{"p"}},
		"with another object":      {model.Update{Groups: map[string]model.Group{"other": other}}, 1, []string{"other", "p"}},
		"with other policies":      {model.Update{Groups: map[string]model.Group{"q": object("PeerAuthentication", "q")}}, 1, []string{"p", "q"}},
		"they are back":            {model.Update{Groups: map[string]model.Group{"p": p}}, 0, []string{"p"}},
		"one is refused":           {model.Update{Stands: []string{"p"}, Groups: map[string]model.Group{"other": other}}, 1, []string{"other", "p"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := stateOf("a")
			tell := func(u model.Update) {
				u.Synced = true
				s.apply(sourceEvent{feed: s.sources["a"].feed, update: u}, epoch)
				s.flush(epoch)
			}
			restart := func() {
				kept := map[string]Remembered{"a": {s.sources["a"].toKeep(), epoch}}
				s = newState(s.patience)
				s.recall(kept, rosterOf("a"), epoch)
				s.reconcile(rosterOf("a"), epoch)
				s.apply(sourceEvent{feed: s.sources["a"].feed, started: true}, epoch)
			}
			tell(model.Update{Groups: map[string]model.Group{"p": p}})
			tell(model.Update{Groups: nothingOf([]string{"p"}), Emptied: true})
			for range 2 {
				restart()
				if got := s.report("a"); got.Stranded != 1 || got.Remembered > 1 || len(s.sources["a"].groups) < 1 {
					t.Errorf("before the source has sent anything it is %+v", got)
				}
				tell(test.next)
				status := s.report("a")
				if got := s.sources["a"].ordered(); status.Stranded != test.stranded || !slices.Equal(got, test.keys) {
					t.Errorf("there are %v, and %d policies are stranded: want %v and %d", got, status.Stranded, test.keys, test.stranded)
				}
				if said := strings.Contains(strings.Join(status.Lines(), "\n"), "1 policies of it count until they are back"); said != (test.stranded > 0) {
					t.Errorf("said is %q", status.Lines())
				}
				if test.stranded == 0 {
					return
				}
			}
			s.sources["a"].started() // it failed, and runs again
			tell(test.next)
			if got := s.report("a").Stranded; got != 1 {
				t.Errorf("in another run of the source %d policies are stranded", got)
			}
			s.release("a", epoch)
			if restart(); s.report("a").Stranded != 0 || s.sources["a"].groups["p"].Len() > 0 {
				t.Errorf("released it is %+v", s.report("a"))
			}
		})
	}
}

// Files that are gone before the first mesh are a wipe too.
func TestAnEmptiedSourceBeforeTheFirstMesh(t *testing.T) {
	p := model.Group{Objects: []*model.Object{{Meta: model.Meta{Kind: "PeerAuthentication", Name: "p"}, Spec: &security.PeerAuthentication{}}}}
	s := stateOf("a")
	for _, u := range []model.Update{{Groups: map[string]model.Group{"p": p}}, {Groups: nothingOf([]string{"p"}), Emptied: true}} {
		u.Synced = true
		s.apply(sourceEvent{feed: s.sources["a"].feed, update: u}, epoch)
	}
	if got := s.report("a"); got.Stranded != 1 || got.Objects != 1 {
		t.Errorf("it is %+v", got)
	}
}
