package ads

// withheld returns want without the units that the client refuses.
func (s *subscription) withheld(want *set, sh *share) *set {
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

func (i *isolation) apply(s *subscription, want *set, sh *share) *set {
	list := make([]*resource, 0, want.size())
	changed, asAccepted := false, s.accepted != nil && s.accepted.size() == want.size()
	there, tried := map[unit]bool{}, i.tried()
	for _, r := range want.all() {
		made := r
		if r.exists() && !sameIn(s.accepted, r) {
			if made = i.form(s.accepted, r, want.kind, sh, there, tried); made == nil {
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
	return setOf(want.kind, list)
}

// form returns the resource as the client should have it, nil for none. It records in there which refused units exist.
func (i *isolation) form(accepted *set, r *resource, k kind, sh *share, there, tried map[unit]bool) *resource {
	d, old := sh.divide(k, r), accepted.find(r.name)
	if d == nil {
		u := r.unit()
		there[u] = true
		switch _, held := i.held(u, tried); {
		case !held:
			return r
		case old != nil && old.exists():
			return old
		}
		return nil
	}
	was := sh.divide(k, old)
	bodies, whole := make([][]byte, 0, len(d.hosts)), true
	for _, h := range d.hosts {
		there[h.unit] = true
		refused, held := i.held(h.unit, tried)
		if !held || was.has(h.unit) {
			bodies = append(bodies, h.body)
			continue
		}
		whole = false
		body := was.body(h.host)
		if body == nil && refused.instead == answer503 {
			body = standIn(h.body)
		}
		if body != nil {
			bodies = append(bodies, body)
		}
	}
	if whole {
		return r
	}
	return sh.form(r, d, bodies)
}
