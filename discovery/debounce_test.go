package discovery

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Half a mesh removes what proxies have: a required source must be whole, an optional one may be late.
func TestStance(t *testing.T) {
	for _, test := range []struct {
		source      string
		initialSync initialSync
		waits       bool
	}{
		{"required, syncing", initialSync{required: true}, true},
		{"required, synced in part", initialSync{required: true, settled: true}, true},
		{"required, synced in part, late", initialSync{required: true, settled: true, late: true}, true},
		{"required, late", initialSync{required: true, late: true}, true},
		{"required, whole", initialSync{required: true, settled: true, whole: true}, false},
		{"optional, syncing", initialSync{}, true},
		{"optional, late", initialSync{late: true}, false},
		{"optional, synced in part", initialSync{settled: true}, false},
		{"optional, whole", initialSync{settled: true, whole: true}, false},
		{"required, remembered, syncing", initialSync{required: true, remembered: true}, true},
		{"required, remembered, failed", initialSync{required: true, remembered: true, faulty: true}, false},
		{"required, remembered, synced in part", initialSync{required: true, remembered: true, settled: true}, false},
		{"required, remembered, late", initialSync{required: true, remembered: true, late: true}, false},
		{"required, failed", initialSync{required: true, faulty: true}, true},
		{"optional, remembered, syncing", initialSync{remembered: true}, true},
		{"optional, remembered, failed", initialSync{remembered: true, faulty: true}, false},
		{"optional, failed", initialSync{faulty: true}, true},
	} {
		if got := test.initialSync.waits(); got != test.waits {
			t.Errorf("%s: it waits: %t, want %t", test.source, got, test.waits)
		}
	}
}

// There is no mesh without a required source, however long it takes; the log names what it waits for.
func TestFirstMeshNeedsWhatIsRequired(t *testing.T) {
	s := newState(Patience{Sync: 30 * time.Second})
	s.required = func(name string) bool { return name == "b" }
	s.reconcile(rosterOf("a", "b"), epoch)
	at{0, "a", update{"x": "1"}, true, false}.apply(s)
	s.expire(epoch.Add(time.Hour))
	if _, due := s.debounce(Debounce{}); due {
		t.Error("a mesh is due without the required source")
	}
	b := s.report("b")
	if lines := strings.Join(b.Lines(), "\n"); !b.Awaited || !b.Required || !strings.Contains(lines, "discovery is not ready without it") {
		t.Errorf("it is %+v: %s", b, lines)
	}
	if last := s.journal.messages[len(s.journal.messages)-1]; last.text != "source has not synced in time, discovery is not ready without it" {
		t.Errorf("logged is %q", last.text)
	} else if reason := last.args[len(last.args)-1]; reason != "it has named no fault: it has not sent all that it knows" {
		t.Errorf("the reason is %q", reason)
	}
	part := model.Group{Faults: []string{"forbidden"}, Unread: true}
	tell := func(groups map[string]model.Group) {
		s.apply(sourceEvent{feed: s.sources["b"].feed, update: model.Update{Groups: groups, Synced: true}}, epoch.Add(time.Hour))
	}
	tell(map[string]model.Group{"kind": part})
	if _, due := s.debounce(Debounce{}); due || !s.report("b").Awaited || !slices.Equal(s.report("b").Unread, []string{"kind: forbidden"}) {
		t.Errorf("with an unread part a mesh is due: %t, the source is %+v", due, s.report("b"))
	}
	s.apply(sourceEvent{feed: s.sources["b"].feed, started: true}, epoch.Add(time.Hour)) // a restart does not make it whole
	if _, due := s.debounce(Debounce{}); due {
		t.Error("a mesh is due after a restart of a source with an unread part")
	}
	tell(map[string]model.Group{"kind": part})
	tell(map[string]model.Group{"kind": {}})
	if _, due := s.debounce(Debounce{}); !due || s.report("b").Awaited || len(s.report("b").Unread) > 0 {
		t.Errorf("when it is whole a mesh is due: %t, the source is %+v", due, s.report("b"))
	}
}

// A new run of a source that cannot read a part removes nothing, since the part may have it; when it is whole it does.
// A record that stands is not removed either.
func TestOnlyAWholeSourceRemoves(t *testing.T) {
	s := stateOf("a")
	at{0, "a", update{"x": "1", "y": "1", "z": "1"}, true, false}.apply(s)
	s.flush(epoch)
	at{0, "a", nil, false, true}.apply(s)
	tell := func(u model.Update) []string {
		s.apply(sourceEvent{feed: s.sources["a"].feed, update: u}, epoch)
		return hosts(s.next())
	}
	first := update{"x": "2"}.model(true)
	first.Groups["file f"] = model.Group{Faults: []string{"line 1: broken"}, Unread: true}
	first.Stands = []string{"y"}
	if got := tell(first); !slices.Equal(got, []string{"x2", "y1", "z1"}) {
		t.Errorf("with an unread part there are %v", got)
	}
	if got := tell(model.Update{Groups: map[string]model.Group{"file f": {}}}); !slices.Equal(got, []string{"x2", "y1"}) {
		t.Errorf("whole, there are %v", got)
	}
}
