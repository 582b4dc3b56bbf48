package config

import (
	"go.yaml.in/yaml/v3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// place is one node of an object: its line in the file, and the type that protobuf expects there.
type place struct {
	parent int  // index of the place above, -1 at the root
	step   step // from the place above, as the file writes it
	line   int
	slot   slot
	node   *yaml.Node
}

// places are the nodes of an object, parents before children. A path is built only for a fault.
type places []place

// path returns "spec.http[0].timeout", as the file writes it.
func (p places) path(i int) string {
	if p[i].parent < 0 {
		return p[i].step.name
	}
	return p.path(p[i].parent) + p[i].step.text()
}

// below is the name of a place for rules, below another one.
type below struct {
	parent int
	name   string
	item   int
}

// index finds places by their names.
type index map[below]int

func (p places) index() index {
	out := make(index, len(p))
	for i := range p {
		out[below{p[i].parent, p[i].jsonName(), p[i].step.item}] = i
	}
	return out
}

// lines returns the line of each field, for an object that begins at line from. A place on the same line as its parent
// has no entry of its own: its name becomes a part of the names below it.
func (p places) lines(from int) model.Lines {
	type kept struct {
		depth, line int    // of the nearest reported place at or above this one
		name        string // path below that place
	}
	all := make([]kept, len(p))
	var out []byte
	last := from
	for i := range p {
		above := kept{line: from}
		if i > 0 {
			above = all[p[i].parent]
		}
		all[i] = kept{above.depth, above.line, above.name + p[i].raw()}
		if p[i].line != above.line {
			out = model.AppendPlace(out, above.depth, p[i].line-last, all[i].name)
			last = p[i].line
			all[i] = kept{above.depth + 1, p[i].line, ""}
		}
	}
	return model.Lines(out)
}

// jsonName returns the name of a place in rules: a file may use target_port as well.
func (p place) jsonName() string {
	if f := p.slot.field; f != nil && !p.slot.element {
		return f.JSONName()
	}
	return p.step.name
}

// raw returns the name of a place in model.Lines, which are not shown: keys are as they are.
func (p place) raw() string {
	switch {
	case p.parent < 0:
		return p.step.name
	case p.step.item > 0:
		return p.step.text()
	default:
		return "." + p.jsonName()
	}
}
