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
		m, _ := s.flush(epoch)
		if o := m.Objects(); len(o) != 1 || o[0].Name != step.name || o[0].Closed != step.closed {
			t.Fatalf("step %d: %+v, want %s", i, o, step.name)
		}
		if got := s.sources["a"].report().Malformed; (len(got) > 0) != (len(step.said.Faults) > 0) {
			t.Errorf("step %d: malformed is %q", i, got)
		}
	}
	tell(model.Group{})
	if m, _ := s.flush(epoch); len(m.Objects()) > 0 {
		t.Errorf("of a policy that is gone there is %+v", m.Objects())
	}
	if !slices.ContainsFunc(s.journal.messages, func(m message) bool {
		return m.text == "malformed policy, which has no earlier form, keeps out whom it could have named"
	}) {
		t.Errorf("it is not told: %+v", s.journal.messages)
	}
}

// A policy with an error is served in its closed form, unless a good form of it is known: that stays, whatever its source
// sends, also in another run. A good one replaces the closed one, and a removal removes both.
func TestAClosedFormIsSecondToTheLastGood(t *testing.T) {
	policy := func(closed bool, rules int, faults ...string) model.Group {
		spec := &security.AuthorizationPolicy{Rules: make([]*security.Rule, rules)}
		for i := range spec.Rules {
			spec.Rules[i] = &security.Rule{}
		}
		meta := model.Meta{Kind: "AuthorizationPolicy", Namespace: "shop", Name: "p", Closed: closed}
		return model.Group{Objects: []*model.Object{{Meta: meta, Spec: spec}}, Faults: faults}
	}
	type step struct {
		send  model.Group
		again bool   // in a new run
		want  string // what is served
	}
	for name, steps := range map[string][]step{
		"never good":            {{policy(true, 1, "wrong"), false, "closed 1"}, {policy(true, 2, "wrong"), false, "closed 2"}},
		"without a fault of it": {{policy(true, 1), false, "closed 1"}, {policy(false, 3), false, "good 3"}, {policy(true, 1), false, "good 3"}},
		"good before":           {{policy(false, 3), false, "good 3"}, {policy(true, 1, "wrong"), false, "good 3"}},
		"good in an earlier run": {
			{policy(false, 3), false, "good 3"}, {policy(true, 1, "wrong"), true, "good 3"}, {policy(true, 2), true, "good 3"},
		},
		"mended":                {{policy(true, 1, "wrong"), false, "closed 1"}, {policy(false, 3), false, "good 3"}},
		"removed, then wrong":   {{policy(false, 3), false, "good 3"}, {model.Group{}, false, ""}, {policy(true, 1, "wrong"), false, "closed 1"}},
		"wrong, and not closed": {{policy(false, 3), false, "good 3"}, {model.Group{Faults: []string{"wrong"}}, false, "good 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := stateOf("a")
			for i, step := range steps {
				if step.again {
					at{i, "a", nil, false, true}.apply(s)
				}
				s.update(s.sources["a"], model.Update{Groups: map[string]model.Group{"p": step.send}, Synced: true}, epoch)
				got := ""
				for _, o := range s.sources["a"].groups["p"].Objects {
					got = "good "
					if o.Closed {
						got = "closed "
					}
					got += string(rune('0' + len(o.Spec.(*security.AuthorizationPolicy).Rules)))
				}
				if got != step.want {
					t.Fatalf("after step %d %q is served, want %q", i, got, step.want)
				}
			}
		})
	}
}
