package config

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// place is one node of an object: its line in the file, and the type that protobuf expects there.
type place struct {
	parent int    // index of the place above, -1 at the root
	name   string // its name in the place above: ".hosts", "[0]"
	line   int
	slot   slot
	node   *yaml.Node
}

// places are the nodes of an object, parents before children. A path is built only for a fault.
type places []place

// path returns "spec.http[0].timeout", as the file writes it.
func (p places) path(i int) string {
	if i < 0 {
		return ""
	}
	return p.path(p[i].parent) + p[i].name
}

// find returns the place of a path of JSON names, or the nearest place above it that the file has: rules also report
// missing fields.
func (p places) find(path string) int {
	best := 0
	left := map[int]string{-1: path} // the rest of path below each place on the way
	for i := range p {
		above, ok := left[p[i].parent]
		if !ok {
			continue
		}
		rest, ok := strings.CutPrefix(above, p[i].jsonName())
		if !ok || rest != "" && rest[0] != '.' && rest[0] != '[' {
			continue
		}
		left[i] = rest
		if best == 0 || len(rest) < len(left[best]) {
			best = i
		}
	}
	return best
}

// given reports whether the file has the field of a path.
func (p places) given(path string) bool {
	at := p.find(path)
	full := ""
	for i := at; i >= 0; i = p[i].parent {
		full = p[i].jsonName() + full
	}
	return full == path
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
		all[i] = kept{above.depth, above.line, above.name + p[i].jsonName()}
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
		return "." + f.JSONName()
	}
	return p.name
}
