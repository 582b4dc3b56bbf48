package discovery

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestDue(t *testing.T) {
	debounce := Debounce{After: 100 * time.Millisecond, Max: time.Second}
	none := update{}
	for name, test := range map[string]struct {
		said []at
		want time.Duration // since the start; negative is never
	}{
		"nobody has told anything":           {nil, -1},
		"one source has not synced":          {[]at{{0, "a", update{"x": "1"}, true, false}, {0, "b", update{"y": "1"}, false, false}}, -1},
		"all synced: quiet after the last":   {[]at{{0, "a", none, true, false}, {50, "b", none, true, false}}, 150 * time.Millisecond},
		"one that took long waits no longer": {[]at{{0, "a", update{"x": "1"}, true, false}, {5000, "b", none, true, false}}, time.Second},
		"changes push quiet out":             {[]at{{0, "a", none, true, false}, {0, "b", none, true, false}, {90, "a", update{"x": "1"}, false, false}}, 190 * time.Millisecond},
		"but not past the ceiling":           {[]at{{0, "a", none, true, false}, {0, "b", none, true, false}, {990, "a", update{"x": "1"}, false, false}}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := stateOf("a", "b")
			for _, said := range test.said {
				said.apply(s)
			}
			due, ok := s.due(debounce)
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
		"a group changes":              {[]at{{0, "a", update{"x": "2"}, false, false}}, true, []string{"x2", "y1"}},
		"a group is deleted":           {[]at{{0, "a", update{"x": ""}, false, false}}, true, []string{"y1"}},
		"nothing is deleted":           {[]at{{0, "a", update{"z": ""}, false, false}}, false, []string{"x1", "y1"}},
		"nothing changes":              {[]at{{0, "a", update{}, true, false}}, false, []string{"x1", "y1"}},
		"a restart keeps what is told": {[]at{restart}, false, []string{"x1", "y1"}},
		"restarted, not synced again":  {[]at{restart, {0, "a", update{"x": "2"}, false, false}}, true, []string{"x2", "y1"}},
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
			s.take()
			for _, said := range test.said {
				said.apply(s)
			}
			if _, due := s.due(Debounce{}); due != test.due {
				t.Errorf("due = %t, want %t", due, test.due)
			}
			mesh, _ := s.take()
			if diff := cmp.Diff(test.want, hosts(mesh)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Of two services with equal right to a host the same one wins, however maps are ordered.
func TestTakeIsDeterministic(t *testing.T) {
	for range 50 {
		s := stateOf("a", "b")
		service := func(port string) model.Group {
			return model.Group{Services: []*model.Service{{Host: "h", Ports: []model.Port{{Name: port}}}}}
		}
		s.sources["b"].groups["1"] = service("b1")
		s.sources["a"].groups["2"], s.sources["a"].groups["1"] = service("a2"), service("a1")
		mesh, _ := s.take()
		if got := mesh.Service("h").Ports[0].Name; got != "a1" {
			t.Fatalf("the host is the one of %s, want a1's", got)
		}
	}
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Which update a push came from can be told afterwards: by source and key, the first few of many.
func TestTakeTellsWhatChanged(t *testing.T) {
	s := stateOf("a", "b")
	at{5, "a", update{"x": "1", "y": "1"}, true, false}.apply(s)
	at{7, "b", update{"x": "1"}, true, false}.apply(s)
	_, got := s.take()
	want := model.Change{Since: epoch.Add(5 * time.Millisecond), Keys: []string{"a/x", "a/y", "b/x"}, Count: 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	many := update{}
	for i := range 3 * maxKeys {
		many[fmt.Sprint(i)] = "1"
	}
	at{9, "a", many, false, false}.apply(s)
	if _, got := s.take(); got.Count != 3*maxKeys || len(got.Keys) != maxKeys {
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
			groups[key] = model.Group{Services: []*model.Service{{Host: key + version}}}
		}
	}
	return model.Update{Groups: groups, Synced: synced}
}

// at is what a source says, at milliseconds since the start.
type at struct {
	ms      int
	source  string
	update  update
	synced  bool
	restart bool
}

func (a at) apply(s *state) {
	now := epoch.Add(time.Duration(a.ms) * time.Millisecond)
	s.apply(said{a.source, a.update.model(a.synced), a.restart}, now)
}

func stateOf(names ...string) *state {
	sources := map[string]Source{}
	for _, name := range names {
		sources[name] = nil
	}
	return newState(sources)
}

func hosts(m *model.Mesh) []string {
	var out []string
	for _, s := range m.Services() {
		out = append(out, s.Host)
	}
	slices.Sort(out)
	return out
}

// A change of endpoints alone is told as such, whatever else the mesh holds; any other is not.
func TestEndpointsTakeTheShortPath(t *testing.T) {
	group := func(host, address string, port uint32) model.Group {
		return model.Group{Services: []*model.Service{{
			Host: host, Namespace: "default", Resolution: model.ResolutionStatic, Ports: []model.Port{{Name: "http", Number: port, Protocol: model.HTTP}},
			Endpoints: []model.Endpoint{{Address: address}},
		}}}
	}
	s := stateOf("a")
	tell := func(groups map[string]model.Group) *model.Mesh {
		s.apply(said{source: "a", update: model.Update{Groups: groups, Synced: true}}, epoch)
		mesh, _ := s.take()
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
			t.Errorf("%s is told as a change of endpoints: %+v", name, mesh.Delta())
		}
	}
}

// A group that loses one of its services is no change of endpoints, though those that it keeps are as they were: in one
// step, or in two that are taken as one.
func TestAGroupThatLosesAService(t *testing.T) {
	service := func(host, address string) *model.Service {
		return &model.Service{
			Host: host, Namespace: "default", Resolution: model.ResolutionStatic, Endpoints: []model.Endpoint{{Address: address}},
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
			s.apply(said{source: "a", update: model.Update{Groups: groups, Synced: true}}, epoch)
		}
		tell(service("a.test", "10.0.0.1"), service("b.test", "10.0.0.1"))
		s.take()
		for _, services := range steps {
			tell(services...)
		}
		if mesh, _ := s.take(); !slices.Equal(hosts(mesh), []string{"a.test"}) {
			t.Errorf("after %d steps the mesh has %v, want a.test", len(steps), hosts(mesh))
		}
	}
}
