package ingress

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// fault is a part of an Ingress that is not served.
type fault struct {
	order      int    // of the field among all of the Ingress
	path, text string // the field, and what is wrong with it
	refused    bool   // an API server refuses an object with it
	missing    bool   // no store has the Service
}

func (h *host) fault(i *ingress, at field, format string, args ...any) {
	h.faults[i] = append(h.faults[i], fault{order: at.order, path: at.path, text: fmt.Sprintf(format, args...)})
}

// faultsOf returns the faults of a copy of an Ingress, in the order of its fields.
func (t *Table) faultsOf(i *ingress) []fault {
	if used := first(t.ingresses[i.name()]); used != i {
		return []fault{{text: fmt.Sprintf("another source has this Ingress too, %s, which is older or comes first: this one is not used", placeOf(used))}}
	}
	out := t.classFaults(i)
	if !t.uses[i.class].verdict.ours {
		return out
	}
	out = append(out, i.faults...)
	if b := i.Spec.DefaultBackend; b != nil {
		if _, wrong := t.route(i.Namespace, b); wrong != nil {
			out = append(out, fault{order: i.fallback.order, path: i.fallback.path + wrong.path, text: wrong.text, missing: wrong.missing})
		}
	}
	for _, name := range i.order {
		if h := t.hosts[name]; h != nil {
			out = append(out, h.faults[i]...)
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].order < out[j].order })
	return slices.Compact(out)
}

func placeOf(i *ingress) string {
	return "at " + cmp.Or(i.at.String(), "a place that is not known")
}

// texts returns the faults of all copies of an Ingress, as the faults of a group. Those of a file begin with file and
// line.
func (t *Table) texts(name Name) (out []string) {
	for _, i := range t.ingresses[name] {
		for _, f := range t.faultsOf(i) {
			text := strings.TrimSpace(f.path + " " + f.text)
			if i.at.File != "" {
				text = fmt.Sprintf("%s:%d: %s", i.at.File, i.line(f), text)
			}
			out = append(out, text)
		}
	}
	return out
}

func (i *ingress) line(f fault) int { return i.at.Fields.At(f.path, i.at.Line) }

// Fault is a part of an Ingress that is not served.
type Fault struct {
	Of      Name
	Origin  model.Origin
	Line    int    // of the field, in a file
	Path    string // the field: "spec.rules[0].host"; "" for the whole Ingress
	Text    string
	Refused bool // an API server refuses an Ingress with it
	Missing bool // no store has the Service that a backend names
}

// Faults returns the faults of all Ingresses at the last call of Changes, by namespace and name.
func (t *Table) Faults() (out []Fault) {
	names := make([]Name, 0, len(t.ingresses))
	for name := range t.ingresses {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool { return names[i].compare(names[j]) < 0 })
	for _, name := range names {
		for _, i := range t.ingresses[name] {
			for _, f := range t.faultsOf(i) {
				out = append(out, Fault{name, i.at, i.line(f), f.path, f.text, f.refused, f.missing})
			}
		}
	}
	return out
}
