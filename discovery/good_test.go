package discovery

import (
	"maps"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

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
