package discovery

import (
	"slices"
	"testing"

	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// What stands for a broken policy is used while no good form of it is known, and never in the place of one.
func TestClosedPolicies(t *testing.T) {
	policy := func(name string, closed bool, faults ...string) model.Group {
		return model.Group{Faults: faults, Objects: []*model.Object{{
			Meta: model.Meta{Kind: "PeerAuthentication", Namespace: "shop", Name: name, Closed: closed}, Spec: &security.PeerAuthentication{},
		}}}
	}
	s := stateOf("a")
	tell := func(g model.Group) {
		s.apply(sourceEvent{feed: s.sources["a"].feed, update: model.Update{Groups: map[string]model.Group{"x": g}, Synced: true}}, epoch)
	}
	for i, step := range []struct {
		said   model.Group
		name   string // of the object that is used
		closed bool
	}{
		{policy("closed", true, "wrong"), "closed", true},
		{policy("closed again", true, "wrong too"), "closed again", true},
		{policy("good", false), "good", false},
		{policy("closed", true, "wrong"), "good", false},
		{policy("better", false), "better", false},
	} {
		tell(step.said)
		m, _ := s.flush()
		if o := m.Objects(); len(o) != 1 || o[0].Name != step.name || o[0].Closed != step.closed {
			t.Fatalf("step %d: %+v, want %s", i, o, step.name)
		}
		if got := s.sources["a"].report().Malformed; (len(got) > 0) != (len(step.said.Faults) > 0) {
			t.Errorf("step %d: malformed is %q", i, got)
		}
	}
	tell(model.Group{})
	if m, _ := s.flush(); len(m.Objects()) > 0 {
		t.Errorf("of a policy that is gone there is %+v", m.Objects())
	}
	if !slices.ContainsFunc(s.messages, func(m message) bool {
		return m.text == "malformed policy, which has no earlier form, keeps out whom it could have named"
	}) {
		t.Errorf("it is not told: %+v", s.messages)
	}
}
