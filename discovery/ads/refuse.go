package ads

import (
	"strings"
)

// searching reports whether a search for the refused units is going on.
func (s *subscription) searching() bool { return s.isolation != nil && s.isolation.order != nil }

// partial is the beginning of Envoy's error text when it has accepted all other clusters or listeners of a response.
const partial = "Error adding/updating "

// byItself returns the units that Envoy names in an error after which it accepted all others.
func (s *subscription) byItself(k kind, text string) (list []unit) {
	if !k.whole() || !strings.HasPrefix(text, partial) {
		return nil
	}
	for _, r := range s.sent.all() {
		if r.exists() && strings.Contains(text, r.name+": ") && !sameIn(s.accepted, r) {
			list = append(list, r.unit())
		}
	}
	return list
}

// candidates are the units of the last response that the client has not accepted.
func (s *subscription) candidates(sh *share) (list []hostUnit) {
	for _, r := range s.sent.all() {
		if !r.exists() || sameIn(s.accepted, r) {
			continue
		}
		d := sh.divide(s.sent.kind, r)
		if d == nil {
			list = append(list, hostUnit{r.unit(), r.whole()})
			continue
		}
		was := sh.divide(s.sent.kind, s.accepted.find(r.name))
		for _, h := range d.hosts {
			if !was.has(h.unit) {
				list = append(list, h)
			}
		}
	}
	return list
}

func sameIn(s *set, r *resource) bool {
	old := s.find(r.name)
	return old != nil && same(old, r)
}

// good returns a function that reports whether the client has accepted some content for a unit's name.
func (s *subscription) good(sh *share) func(unit) bool {
	return func(u unit) bool {
		old := s.accepted.find(u.resource)
		if old == nil || !old.exists() {
			return false
		}
		return u.host == "" || sh.divide(s.accepted.kind, old).body(u.host) != nil
	}
}
