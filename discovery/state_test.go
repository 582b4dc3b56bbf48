package discovery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestDue(t *testing.T) {
	debounce := Debounce{After: 100 * time.Millisecond, Max: time.Second}
	ms := time.Millisecond
	none := update{}
	synced := []at{{0, "a", none, true, false}, {0, "b", none, true, false}}
	change := func(after int) at { return at{after, "a", update{"x": "1"}, false, false} }
	type past struct{ began, ended, offering time.Duration } // the push before
	for name, test := range map[string]struct {
		said   []at
		pushed *past // after the first two have sent something
		then   []at
		want   time.Duration // since the start; negative is never
	}{
		"nobody has told anything":           {nil, nil, nil, -1},
		"one source has not synced":          {[]at{{0, "a", update{"x": "1"}, true, false}, {0, "b", update{"y": "1"}, false, false}}, nil, nil, -1},
		"all synced: at once":                {[]at{{0, "a", none, true, false}, {50, "b", none, true, false}}, nil, nil, 0},
		"one that took long waits no longer": {[]at{{0, "a", update{"x": "1"}, true, false}, {5000, "b", none, true, false}}, nil, nil, 0},
		"nothing changed since":              {synced, &past{0, 0, 0}, nil, -1},
		"idle: at once":                      {synced, &past{0, 0, 0}, []at{change(5000)}, 5000 * ms},
		"soon after a push":                  {synced, &past{0, 10 * ms, 0}, []at{change(50)}, 110 * ms},
		"changes do not push it out":         {synced, &past{0, 10 * ms, 0}, []at{change(50), change(109)}, 110 * ms},
		"a push took long":                   {synced, &past{0, 60 * ms, 0}, []at{change(70)}, 300 * ms},
		"offering it took long":              {synced, &past{0, 10 * ms, 90 * ms}, []at{change(70)}, 410 * ms},
		"but no change waits for ever":       {synced, &past{0, 10 * ms, 900 * ms}, []at{change(70), change(500)}, 1070 * ms},
		"it came while a push went on":       {synced, &past{0, 3000 * ms, 0}, []at{change(70)}, 1070 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			s := stateOf("a", "b")
			for _, said := range test.said {
				said.apply(s)
			}
			if p := test.pushed; p != nil {
				s.flush(epoch)
				s.pushes.record(epoch.Add(p.began), epoch.Add(p.ended))
				s.pushes.recordOffer(p.offering)
			}
			for _, said := range test.then {
				said.apply(s)
			}
			due, ok := s.debounce(debounce)
			if got := due.Sub(epoch); ok != (test.want >= 0) || ok && got != test.want {
				t.Errorf("due = %v, %t, want %v", got, ok, test.want)
			}
		})
	}
}

func TestApply(t *testing.T) {
	restart := at{source: "a", restart: true}
	for name, test := range map[string]struct {
		said []at
		due  bool // after a first push of x and y
		want []string
	}{
		"a group changes":               {[]at{{0, "a", update{"x": "2"}, false, false}}, true, []string{"x2", "y1"}},
		"a group is deleted":            {[]at{{0, "a", update{"x": ""}, false, false}}, true, []string{"y1"}},
		"nothing is deleted":            {[]at{{0, "a", update{"z": ""}, false, false}}, false, []string{"x1", "y1"}},
		"nothing changes":               {[]at{{0, "a", update{}, true, false}}, false, []string{"x1", "y1"}},
		"a restart keeps what was sent": {[]at{restart}, false, []string{"x1", "y1"}},
		"restarted, not synced again":   {[]at{restart, {0, "a", update{"x": "2"}, false, false}}, true, []string{"x2", "y1"}},
		"what is not told again went away meanwhile": {
			[]at{restart, {0, "a", update{"x": "1"}, false, false}, {0, "a", update{}, true, false}}, true, []string{"x1"},
		},
		"once synced, silence deletes nothing": {
			[]at{restart, {0, "a", update{"x": "1", "y": "1"}, true, false}, {0, "a", update{"x": "2"}, true, false}}, true, []string{"x2", "y1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := stateOf("a")
			at{0, "a", update{"x": "1", "y": "1"}, true, false}.apply(s)
			s.flush(epoch)
			for _, said := range test.said {
				said.apply(s)
			}
			if _, due := s.debounce(Debounce{}); due != test.due {
				t.Errorf("due = %t, want %t", due, test.due)
			}
			mesh, _ := s.flush(epoch)
			if diff := cmp.Diff(test.want, hosts(mesh)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Of two services with equal right to a host the same one wins, independent of the order of maps.
func TestTakeIsDeterministic(t *testing.T) {
	for range 50 {
		s := stateOf("a", "b")
		service := func(port string) model.Group {
			return model.Group{Services: []*model.Service{{Right: model.RightFull, Host: "h", Ports: []model.Port{{Name: port}}}}}
		}
		s.sources["b"].take("1", service("b1"))
		s.sources["a"].take("2", service("a2"))
		s.sources["a"].take("1", service("a1"))
		mesh, _ := s.flush(epoch)
		if got := mesh.Service("h").Ports[0].Name; got != "a1" {
			t.Fatalf("the host is the one of %s, want a1's", got)
		}
	}
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// A push names the updates that caused it: by source and key, the first few of many.
func TestTakeTellsWhatChanged(t *testing.T) {
	s := stateOf("a", "b")
	at{5, "a", update{"x": "1", "y": "1"}, true, false}.apply(s)
	at{7, "b", update{"x": "1"}, true, false}.apply(s)
	_, got := s.flush(epoch)
	want := model.Change{Since: epoch.Add(5 * time.Millisecond), Keys: []string{"a/x", "a/y", "b/x"}, Count: 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	many := update{}
	for i := range 3 * maxKeys {
		many[fmt.Sprint(i)] = "1"
	}
	at{9, "a", many, false, false}.apply(s)
	if _, got := s.flush(epoch); got.Count != 3*maxKeys || len(got.Keys) != maxKeys {
		t.Errorf("of %d keys: told %d, count %d", 3*maxKeys, len(got.Keys), got.Count)
	}
}

// update gives each key a service of that name and version, or nothing.
type update map[string]string

func (u update) model(synced bool) model.Update {
	groups := map[string]model.Group{}
	for key, version := range u {
		groups[key] = model.Group{}
		if version != "" {
			groups[key] = model.Group{Services: []*model.Service{{Right: model.RightFull, Host: key + version}}}
		}
	}
	return model.Update{Groups: groups, Synced: synced}
}

// at is an event of a source, at milliseconds since the start.
type at struct {
	ms      int
	source  string
	update  update
	synced  bool
	restart bool
}

func (a at) apply(s *state) {
	now := epoch.Add(time.Duration(a.ms) * time.Millisecond)
	s.apply(sourceEvent{feed: s.sources[a.source].feed, update: a.update.model(a.synced), started: a.restart}, now)
}

// stateOf returns a state with sources that were added at the epoch.
func stateOf(names ...string) *state {
	s := newState(Patience{Sync: 30 * time.Second, Wipe: 30 * time.Second})
	s.reconcile(rosterOf(names...), epoch)
	return s
}

func rosterOf(names ...string) map[string]*feed {
	roster := map[string]*feed{}
	for _, name := range names {
		roster[name] = &feed{name: name}
	}
	return roster
}

func hosts(m *model.Mesh) []string {
	var out []string
	for _, s := range m.Services() {
		out = append(out, s.Host)
	}
	slices.Sort(out)
	return out
}

// A change of endpoints alone is detected as such, in any mesh; any other change is not.
func TestEndpointsTakeTheShortPath(t *testing.T) {
	group := func(host, address string, port uint32) model.Group {
		return model.Group{Services: []*model.Service{{
			Right: model.RightFull, Host: host, Namespace: "default", Resolution: model.ResolutionStatic, Ports: []model.Port{{Name: "http", Number: port, Protocol: model.HTTP}},
			Endpoints: []model.Endpoint{{Address: address}},
		}}}
	}
	s := stateOf("a")
	tell := func(groups map[string]model.Group) *model.Mesh {
		s.apply(sourceEvent{feed: s.sources["a"].feed, update: model.Update{Groups: groups, Synced: true}}, epoch)
		mesh, _ := s.flush(epoch)
		return mesh
	}
	first := tell(map[string]model.Group{"x": group("x.test", "10.0.0.1", 80), "y": group("y.test", "10.0.0.2", 80)})
	moved := tell(map[string]model.Group{"x": group("x.test", "10.0.0.9", 80)})
	if moved.Delta().Since != first.Delta().ID || moved.Service("x.test").Endpoints[0].Address != "10.0.0.9" {
		t.Errorf("delta %+v of the first mesh %p, want a change of endpoints", moved.Delta(), first.Delta().ID)
	}
	for name, groups := range map[string]map[string]model.Group{
		"a port":    {"x": group("x.test", "10.0.0.9", 81)},
		"a service": {"z": group("z.test", "10.0.0.3", 80)},
		"a removal": {"y": {}},
	} {
		if mesh := tell(groups); mesh.Delta().Since != nil {
			t.Errorf("%s counts as a change of endpoints: %+v", name, mesh.Delta())
		}
	}
}

// An edit at the top of a large file moves all objects below it: they are sent again, and only the edited one counts as
// changed.
func TestWhatOnlyMovesTakesTheShortPath(t *testing.T) {
	groups := func(line int, address string) map[string]model.Group {
		out := map[string]model.Group{}
		for i := range 200 { // more than may move their endpoints
			host := fmt.Sprintf("x%d.test", i)
			out[host] = model.Group{
				Services: []*model.Service{{
					Right: model.RightFull, Host: host, Namespace: "default", Resolution: model.ResolutionStatic, Endpoints: []model.Endpoint{{Address: "10.0.0.1"}},
				}},
				Objects: []*model.Object{{
					Meta: model.Meta{Kind: "ServiceEntry", Namespace: "default", Name: host, Origin: model.Origin{File: "f", Line: line + i}},
					Spec: &networking.ServiceEntry{Hosts: []string{host}},
				}},
			}
		}
		out["x0.test"].Services[0].Endpoints[0].Address = address
		return out
	}
	s := stateOf("a")
	tell := func(groups map[string]model.Group) *model.Mesh {
		s.apply(sourceEvent{feed: s.sources["a"].feed, update: model.Update{Groups: groups, Synced: true}}, epoch)
		mesh, _ := s.flush(epoch)
		return mesh
	}
	before, after := groups(1, "10.0.0.1"), groups(2, "10.0.0.2")
	for key, group := range after {
		if group.Objects[0].Spec = before[key].Objects[0].Spec; key != "x0.test" { // the store and the registry keep the pointer
			group.Services[0] = before[key].Services[0]
		}
	}
	first, next := tell(before), tell(after)
	if d := next.Delta(); d.Since != first.Delta().ID || len(d.Services) != 1 || d.Services[0].Host != "x0.test" {
		t.Errorf("delta %+v, want that of x0.test", d)
	}
}

// A group that loses one of its services is no change of endpoints alone, even if its other services are unchanged: in
// one step, or in two that are pushed together.
func TestAGroupThatLosesAService(t *testing.T) {
	service := func(host, address string) *model.Service {
		return &model.Service{
			Right: model.RightFull, Host: host, Namespace: "default", Resolution: model.ResolutionStatic, Endpoints: []model.Endpoint{{Address: address}},
			Ports: []model.Port{{Name: "http", Number: 80, Protocol: model.HTTP}},
		}
	}
	for _, steps := range [][][]*model.Service{
		{{service("a.test", "10.0.0.1")}},
		{{service("a.test", "10.0.0.1")}, {service("a.test", "10.0.0.2")}},
	} {
		s := stateOf("a")
		tell := func(services ...*model.Service) {
			groups := map[string]model.Group{"x": {Services: services}}
			s.apply(sourceEvent{feed: s.sources["a"].feed, update: model.Update{Groups: groups, Synced: true}}, epoch)
		}
		tell(service("a.test", "10.0.0.1"), service("b.test", "10.0.0.1"))
		s.flush(epoch)
		for _, services := range steps {
			tell(services...)
		}
		if mesh, _ := s.flush(epoch); !slices.Equal(hosts(mesh), []string{"a.test"}) {
			t.Errorf("after %d steps the mesh has %v, want a.test", len(steps), hosts(mesh))
		}
	}
}

// A source's name and its keys may hold any character: a change of one source's group is never confused with another's.
func TestNamesOfSourcesHoldAnyCharacter(t *testing.T) {
	s := stateOf("kubernetes", "kubernetes/east")
	at{0, "kubernetes", update{"east/x": "1"}, true, false}.apply(s)
	at{0, "kubernetes/east", update{"x": "2"}, true, false}.apply(s)
	mesh, change := s.flush(epoch)
	if diff := cmp.Diff([]string{"east/x1", "x2"}, hosts(mesh)); diff != "" || change.Count != 2 {
		t.Errorf("%d changes, (-want +got):\n%s", change.Count, diff)
	}
	at{0, "kubernetes/east", update{"x": "3"}, false, false}.apply(s)
	if mesh, _ = s.flush(epoch); !slices.Equal(hosts(mesh), []string{"east/x1", "x3"}) {
		t.Errorf("the mesh has %v, want east/x1 and x3", hosts(mesh))
	}
}

// Each mesh, the first one and those after a change, has the server's domain.
func TestDomain(t *testing.T) {
	s := stateOf("a")
	s.settings.Domain = "corp.example"
	for _, said := range []update{{"x": "1"}, {"x": "2"}, {"x": "2", "y": "1"}} {
		at{0, "a", said, true, false}.apply(s)
		if mesh, _ := s.flush(epoch); mesh.Settings().Domain != "corp.example" {
			t.Errorf("after %v the domain is %s", said, mesh.Settings().Domain)
		}
	}
}

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
			if s.expire(until.Add(-1)); len(s.lacking.names()) == 0 {
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
			if last := s.journal.messages[len(s.journal.messages)-1]; !strings.HasPrefix(last.text, "nothing is known of a source") {
				t.Errorf("logged is %q", last.text)
			}
			at{2, "a", update{"x": "2"}, false, false}.apply(s)
			if mesh, _ = s.flush(epoch); !slices.Equal(mesh.Lacks, []string{"late"}) {
				t.Errorf("the next mesh lacks %v", mesh.Lacks)
			}
			at := end(s)
			if _, due := s.debounce(Debounce{}); !due {
				t.Error("no mesh is due")
			}
			if mesh, _ = s.flush(at); len(mesh.Lacks) > 0 || len(s.lacking.names()) > 0 {
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
