package protocol

import (
	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// withheld returns want without the units that the client refuses.
func (s *subscription) withheld(want *content.Set, sh *content.Share) *content.Set {
	i := s.isolation
	if i == nil || i.order == nil && len(i.refused) == 0 {
		return want
	}
	a := &i.applied
	if a.want == want && a.had == s.accepted && a.found == i.found && a.try == i.try && a.searching == s.searching() {
		return a.got
	}
	a.want, a.had, a.found, a.try, a.searching = want, s.accepted, i.found, i.try, s.searching()
	a.got = i.apply(s, want, sh)
	return a.got
}

func (i *isolation) apply(s *subscription, want *content.Set, sh *content.Share) *content.Set {
	list := make([]*content.Resource, 0, want.Size())
	changed, asAccepted := false, s.accepted != nil && s.accepted.Size() == want.Size()
	there, tried := map[content.Unit]bool{}, i.tried()
	for _, r := range want.All() {
		made := r
		if r.Exists() && !sameIn(s.accepted, r) {
			if made = i.form(s.accepted, r, want.Kind, sh, there, tried); made == nil {
				changed, asAccepted = true, false
				continue
			}
		}
		changed = changed || made != r
		asAccepted = asAccepted && sameIn(s.accepted, made)
		list = append(list, made)
	}
	for u := range i.refused { // with another content it is another unit
		if !there[u] {
			delete(i.refused, u)
		}
	}
	switch {
	case !changed:
		return want
	case asAccepted:
		return s.accepted
	}
	return content.SetOf(want.Kind, list)
}

// form returns the resource as the client should have it, nil for none. It records in there which refused units exist.
func (i *isolation) form(accepted *content.Set, r *content.Resource, k content.Kind, sh *content.Share, there, tried map[content.Unit]bool) *content.Resource {
	d, old := sh.Divide(k, r), accepted.Find(r.Name)
	if d == nil {
		u := r.Unit()
		there[u] = true
		switch _, held := i.held(u, tried); {
		case !held:
			return r
		case old != nil && old.Exists():
			return old
		}
		return nil
	}
	was := sh.Divide(k, old)
	bodies, whole := make([][]byte, 0, len(d.Hosts)), true
	for _, h := range d.Hosts {
		there[h.Unit] = true
		refused, held := i.held(h.Unit, tried)
		if !held || was.Has(h.Unit) {
			bodies = append(bodies, h.Body)
			continue
		}
		whole = false
		body := was.Body(h.Host)
		if body == nil && refused.instead == answer503 {
			body = content.StandIn(h.Body)
		}
		if body != nil {
			bodies = append(bodies, body)
		}
	}
	if whole {
		return r
	}
	return sh.Form(r, d, bodies)
}
