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
					c.old[key] = true
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
