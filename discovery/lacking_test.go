package discovery

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// The first mesh lacks a source of which nothing is known, and says so, until the source is whole, ends, is removed or released,
// or until the time is over. Its own registry of hosts does not matter, nor what was known of it before.
func TestASourceIsLacking(t *testing.T) {
	const recall = time.Hour
	for what, end := range map[string]func(s *state) (at time.Time){
		"it is whole": func(s *state) time.Time {
			at{1, "late", update{"z": "1"}, true, false}.apply(s)
			return epoch
		},
		"it ends": func(s *state) time.Time {
			s.apply(sourceEvent{feed: s.sources["late"].feed, ended: true}, epoch)
			return epoch
		},
		"it is removed":  func(s *state) time.Time { s.reconcile(rosterLess(s, "late"), epoch); return epoch },
		"it is released": func(s *state) time.Time { s.release("late", epoch); return epoch },
		"the time is over": func(s *state) time.Time {
			until := epoch.Add(recall)
			if wake, ok := s.wake(Debounce{}); !ok || !wake.Equal(until) {
				t.Errorf("it wakes at %v, %t", wake, ok)
			}
			if s.expire(until.Add(-1)); len(s.lacks()) == 0 {
				t.Error("it ends before its time")
			}
			s.expire(until)
			return until
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := stateOf("a", "late")
			s.patience.Recall = recall
			s.sources["late"].feed.source = open{}
			at{0, "a", update{"x": "1"}, true, false}.apply(s)
			s.expire(epoch.Add(30 * time.Second))
			mesh, _ := s.flush(epoch)
			status := s.report("late")
			if !slices.Equal(mesh.Lacks, []string{"late"}) || !status.Lacking || !status.LackingUntil.Equal(epoch.Add(recall)) || s.report("a").Lacking {
				t.Fatalf("the mesh lacks %v, the source is %+v", mesh.Lacks, status)
			}
			if lines := strings.Join(status.Lines(), "\n"); !strings.Contains(lines, "proxies that come back keep what they have until it is whole, until 2026-01-01T01:00:00Z, or until `discovery release late`") {
				t.Errorf("it says %s", lines)
			}
			if last := s.messages[len(s.messages)-1]; !strings.HasPrefix(last.text, "nothing is known of a source") {
				t.Errorf("logged is %q", last.text)
			}
			at{2, "a", update{"x": "2"}, false, false}.apply(s)
			if mesh, _ = s.flush(epoch); !slices.Equal(mesh.Lacks, []string{"late"}) {
				t.Errorf("the next mesh lacks %v", mesh.Lacks)
			}
			at := end(s)
			if _, due := s.due(Debounce{}); !due {
				t.Error("no mesh is due")
			}
			if mesh, _ = s.flush(at); len(mesh.Lacks) > 0 || len(s.lacks()) > 0 {
				t.Errorf("then it lacks %v", mesh.Lacks)
			}
			without := what == "it is released" || what == "the time is over"
			if mesh.Forgone != without {
				t.Errorf("it goes without a source: %t, want %t", mesh.Forgone, without)
			}
			if !without {
				return
			}
			s.apply(sourceEvent{feed: s.sources["late"].feed, update: update{"z": "1"}.model(true)}, at)
			if mesh, _ = s.flush(at); mesh.Forgone {
				t.Error("it goes without a source that is whole")
			}
		})
	}
}

// A source that comes back with a part that it cannot read still lacks; one that is remembered, or was there, never does.
func TestWhatLacks(t *testing.T) {
	s := stateOf("a", "late")
	at{0, "a", update{"x": "1"}, true, false}.apply(s)
	s.expire(epoch.Add(30 * time.Second))
	s.flush(epoch)
	tell := func(groups map[string]model.Group) {
		s.apply(sourceEvent{feed: s.sources["late"].feed, update: model.Update{Groups: groups, Synced: true}}, epoch)
	}
	tell(map[string]model.Group{"kind": {Faults: []string{"forbidden"}, Unread: true}})
	if now := s.report("late"); !now.Lacking || !strings.Contains(strings.Join(now.Lines(), "\n"), "proxies that come back keep") {
		t.Errorf("with an unread part it is %+v", now)
	}
	if tell(map[string]model.Group{"kind": {}}); s.report("late").Lacking {
		t.Error("whole, it is lacking")
	}

	s = newState(Patience{Sync: 30 * time.Second})
	s.recall(map[string]Remembered{"late": {update{"z": "1"}.model(true).Groups, epoch}}, rosterOf("a", "late"), epoch)
	s.reconcile(rosterOf("a", "late"), epoch)
	at{0, "a", update{"x": "1"}, true, false}.apply(s)
	s.expire(epoch.Add(30 * time.Second))
	if mesh, _ := s.flush(epoch); len(mesh.Lacks) > 0 {
		t.Errorf("with what is remembered it lacks %v", mesh.Lacks)
	}
}
