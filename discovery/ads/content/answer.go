package content

import (
	"slices"
)

// Question holds the inputs of an answer.
type Question struct {
	Had, Want *Set   // had is nil if it is not known
	Due       *Names // to be sent even if unchanged
	Variant   Variant
	Wildcard  bool
	Gone      bool // the answer names resources that no longer exist
}

// answerer finds the news for clients, each once.
type answerer struct {
	comparer *comparer
	answered memo[Question, *News]
}

// Answer returns the news that bring a client from one set to another, nil if there are none.
func (a *answerer) Answer(q Question) *News {
	if q.Variant == SotW && q.Want.Kind.Whole() {
		if q.Had != nil && q.Had.Version == q.Want.Version && q.Due == nil {
			return nil
		}
		return whole(q.Want)
	}
	var n *News
	switch {
	case q.Had == q.Want && q.Due == nil:
		return nil
	case q.Had == nil:
		n = whole(q.Want)
	default:
		cost := 1
		if !q.Wildcard {
			cost += q.Want.Size() // names that the client named
		}
		n = a.answered.getFor(cost, q, func() *News { return a.difference(q) })
	}
	if q.Variant == SotW && q.Want.Kind == SDS {
		n = n.existing()
	}
	if len(n.Parts) == 0 && (q.Had != nil || !q.Wildcard) { // the first answer to a wildcard is sent even if it is empty
		return nil
	}
	return n
}

func whole(s *Set) *News {
	n := &News{Parts: make([]*part, 0, len(s.layers))}
	for _, l := range s.layers {
		n.Parts = append(n.Parts, &l.part)
	}
	return n
}

func (a *answerer) difference(q Question) *News {
	n := &News{Parts: a.comparer.updated(q.Had, q.Want)}
	if q.Gone {
		n.Parts = append(n.Parts, a.comparer.gone(q.Had, q.Want, n.Parts)...)
	}
	var extra []*Resource
	for _, name := range q.Due.All() {
		r := q.Want.Find(name)
		if r == nil && q.Wildcard {
			r = absent(name)
		}
		if r != nil && !slices.ContainsFunc(n.Parts, func(p *part) bool { return p.find(name) != nil }) {
			extra = append(extra, r)
		}
	}
	if len(extra) > 0 {
		n.Parts = append(n.Parts, &part{kind: q.Want.Kind, Resources: extra})
	}
	return n
}

// News is the content of a response.
type News struct {
	Parts []*part
}

// Size returns the number of resources.
func (n *News) Size() (count int) {
	for _, p := range n.Parts {
		count += len(p.Resources)
	}
	return count
}

// existing returns n without names that do not exist, if the variant cannot express them: an Envoy refuses a response
// that lacks the secret that it requested, and keeps waiting without a response.
func (n *News) existing() *News {
	out := &News{}
	for _, p := range n.Parts {
		list := slices.DeleteFunc(slices.Clone(p.Resources), func(r *Resource) bool { return !r.Exists() })
		switch len(list) {
		case 0:
		case len(p.Resources):
			out.Parts = append(out.Parts, p)
		default:
			out.Parts = append(out.Parts, &part{kind: p.kind, Resources: list})
		}
	}
	return out
}
