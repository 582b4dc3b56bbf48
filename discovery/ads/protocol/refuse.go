package protocol

import (
	"strings"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// searching reports whether a search for the refused units is going on.
func (s *subscription) searching() bool { return s.isolation != nil && s.isolation.order != nil }

// partial is the beginning of Envoy's error text when it has accepted all other clusters or listeners of a response.
const partial = "Error adding/updating "

// byItself returns the units that Envoy names in an error after which it accepted all others.
func (s *subscription) byItself(k content.Kind, text string) (list []content.Unit) {
	if !k.Whole() || !strings.HasPrefix(text, partial) {
		return nil
	}
	for _, r := range s.sent.All() {
		if r.Exists() && strings.Contains(text, r.Name+": ") && !sameIn(s.accepted, r) {
			list = append(list, r.Unit())
		}
	}
	return list
}

// candidates are the units of the last response that the client has not accepted.
func (s *subscription) candidates(sh *content.Share) (list []content.HostUnit) {
	for _, r := range s.sent.All() {
		if !r.Exists() || sameIn(s.accepted, r) {
			continue
		}
		d := sh.Divide(s.sent.Kind, r)
		if d == nil {
			list = append(list, content.HostUnit{Unit: r.Unit(), Body: r.Whole()})
			continue
		}
		was := sh.Divide(s.sent.Kind, s.accepted.Find(r.Name))
		for _, h := range d.Hosts {
			if !was.Has(h.Unit) {
				list = append(list, h)
			}
		}
	}
	return list
}

func sameIn(s *content.Set, r *content.Resource) bool {
	old := s.Find(r.Name)
	return old != nil && content.Same(old, r)
}

// good returns a function that reports whether the client has accepted some content for a unit's name.
func (s *subscription) good(sh *content.Share) func(content.Unit) bool {
	return func(u content.Unit) bool {
		old := s.accepted.Find(u.Resource)
		if old == nil || !old.Exists() {
			return false
		}
		return u.Host == "" || sh.Divide(s.accepted.Kind, old).Body(u.Host) != nil
	}
}
