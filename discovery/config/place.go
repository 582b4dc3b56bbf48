package config

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// place is one node of an object: where the file has it, and what protobuf expects there.
type place struct {
	parent int    // index of the place above, -1 at the root
	name   string // what the place above calls it: ".hosts", "[0]"
	line   int
	slot   slot
	node   *yaml.Node
}

// places are the nodes of an object, parents before children. A path is put together only for a fault.
type places []place

// path returns "spec.http[0].timeout", as the file writes it.
func (p places) path(i int) string {
	if i < 0 {
		return ""
	}
	return p.path(p[i].parent) + p[i].name
}

// find returns the place that a path of JSON names leads to, or the nearest above it that the file has: a rule speaks
// of fields that are missing, too.
func (p places) find(path string) int {
	best := 0
	left := map[int]string{-1: path} // what remains of path below each place on the way
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

// lines returns where each field is, for an object that begins at line from. A place on the line of the one above it is
// joined to those below.
func (p places) lines(from int) model.Lines {
	type kept struct {
		depth, line int    // of the nearest place at or above that is reported
		name        string // of what is below that
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

// jsonName is what rules call a place: a file may write target_port as well.
func (p place) jsonName() string {
	if f := p.slot.field; f != nil && !p.slot.element {
		return "." + f.JSONName()
	}
	return p.name
}
