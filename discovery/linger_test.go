package discovery

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

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
				if _, due := s.due(Debounce{}); due != step.pushed {
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
