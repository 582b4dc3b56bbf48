package ads

import (
	"slices"
)

// question holds the inputs of an answer.
type question struct {
	had, want *set   // had is nil if it is not known
	due       *names // to be sent even if unchanged
	variant   variant
	wildcard  bool
	gone      bool // the answer names resources that no longer exist
}

// answerer finds the news for clients, each once.
type answerer struct {
	comparer *comparer
	answered memo[question, *news]
}

// answer returns the news that bring a client from one set to another, nil if there are none.
func (a *answerer) answer(q question) *news {
	if q.variant == sotw && q.want.kind.whole() {
		if q.had != nil && q.had.version == q.want.version && q.due == nil {
			return nil
		}
		return whole(q.want)
	}
	var n *news
	switch {
	case q.had == q.want && q.due == nil:
		return nil
	case q.had == nil:
		n = whole(q.want)
	default:
		cost := 1
		if !q.wildcard {
			cost += q.want.size() // names that the client named
		}
		n = a.answered.getFor(cost, q, func() *news { return a.difference(q) })
	}
	if q.variant == sotw && q.want.kind == sds {
		n = n.existing()
	}
	if len(n.parts) == 0 && (q.had != nil || !q.wildcard) { // the first answer to a wildcard is sent even if it is empty
		return nil
	}
	return n
}

func whole(s *set) *news {
	n := &news{parts: make([]*part, 0, len(s.layers))}
	for _, l := range s.layers {
		n.parts = append(n.parts, &l.part)
	}
	return n
}

func (a *answerer) difference(q question) *news {
	n := &news{parts: a.comparer.updated(q.had, q.want)}
	if q.gone {
		n.parts = append(n.parts, a.comparer.gone(q.had, q.want, n.parts)...)
	}
	var extra []*resource
	for _, name := range q.due.all() {
		r := q.want.find(name)
		if r == nil && q.wildcard {
			r = absent(name)
		}
		if r != nil && !slices.ContainsFunc(n.parts, func(p *part) bool { return p.find(name) != nil }) {
			extra = append(extra, r)
		}
	}
	if len(extra) > 0 {
		n.parts = append(n.parts, &part{kind: q.want.kind, resources: extra})
	}
	return n
}

// news is the content of a response.
type news struct {
	parts []*part
}

func (n *news) size() (count int) {
	for _, p := range n.parts {
		count += len(p.resources)
	}
	return count
}

// existing returns n without names that do not exist, if the variant cannot express them: an Envoy refuses a response
// that lacks the secret that it requested, and keeps waiting without a response.
func (n *news) existing() *news {
	out := &news{}
	for _, p := range n.parts {
		list := slices.DeleteFunc(slices.Clone(p.resources), func(r *resource) bool { return !r.exists() })
		switch len(list) {
		case 0:
		case len(p.resources):
			out.parts = append(out.parts, p)
		default:
			out.parts = append(out.parts, &part{kind: p.kind, resources: list})
		}
	}
	return out
}
