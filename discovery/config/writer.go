package config

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// writer writes nodes as JSON, each on a line of its own, so that a line of the JSON is an index of places.
type writer struct {
	*reader
	json    bytes.Buffer
	places  places
	skip    map[string]bool // paths to leave out: their faults are known
	unknown tally           // fields that their message does not have, which are left out as well
}

// node writes lead, then n. Closing brackets stay on the line of the text before them.
func (w *writer) node(n *yaml.Node, p place, lead string, aliased bool, depth int) {
	n, aliased = w.enter(n, aliased, depth)
	p.node = n
	at := len(w.places)
	w.places = append(w.places, p)
	if at > 0 {
		w.json.WriteByte('\n')
	}
	w.json.WriteString(lead)
	switch {
	case w.fault != nil:
		w.json.WriteString("null") // it is not read
	case n.Kind == yaml.MappingNode:
		w.object(n, at, aliased, depth)
	case n.Kind == yaml.SequenceNode:
		w.list(n, at, aliased, depth)
	default:
		w.json.WriteString(p.slot.scalar(n))
	}
}

func (w *writer) object(n *yaml.Node, at int, aliased bool, depth int) {
	w.json.WriteByte('{')
	comma := ""
	for _, e := range w.entries(n, aliased, depth) {
		below, known := w.places[at].slot.child(e.key)
		p := place{parent: at, step: step{name: e.key, key: !known || below.element || below.field == nil}, line: e.line, slot: below}
		switch {
		case !known:
			w.refuse(p, e.key)
		case !w.skipped(p):
			w.node(e.value, p, comma+quote(e.key)+":", aliased, depth+1)
			comma = ","
		}
	}
	w.json.WriteByte('}')
}

func (w *writer) list(n *yaml.Node, at int, aliased bool, depth int) {
	w.json.WriteByte('[')
	comma := ""
	for i, item := range n.Content {
		p := place{parent: at, step: step{item: i + 1}, line: item.Line, slot: w.places[at].slot.item()}
		if !w.skipped(p) {
			w.node(item, p, comma, aliased, depth+1)
			comma = ","
		}
	}
	w.json.WriteByte(']')
}

func (w *writer) skipped(p place) bool {
	return len(w.skip) > 0 && w.skip[w.places.path(p.parent)+p.step.text()]
}

func (w *writer) refuse(p place, key string) {
	if w.unknown.next(Error) {
		w.unknown.keep(Problem{
			Line: p.line, Severity: Error, Path: w.places.path(p.parent) + p.step.text(),
			Message: fmt.Sprintf("unknown field %q%s", short([]any{key})[0], suggest(key, w.places[p.parent].slot.fieldNames())),
		})
	}
}

// scalar writes a scalar as protojson reads it. Istio accepts a duration in any unit, protobuf's JSON in seconds only.
// No API server accepts a number in quotes; protobuf's JSON does.
func (s slot) scalar(n *yaml.Node) string {
	if m := s.message(); m != nil && m.FullName() == duration {
		if d, err := time.ParseDuration(n.Value); err == nil {
			if out, err := protojson.Marshal(durationpb.New(d)); err == nil {
				return string(out)
			}
		}
	}
	out := scalar(n)
	if values := s.enum(); values != nil && decimal.MatchString(out) {
		if i, err := strconv.ParseInt(out, 10, 32); err != nil || values.Values().ByNumber(protoreflect.EnumNumber(i)) == nil {
			return "[]" // protobuf would accept unknown numbers
		}
	}
	if s.number() && n.Kind == yaml.ScalarNode && out == quote(n.Value) {
		return "[]" // not a number, so that the value is reported as wrong
	}
	return out
}

// fieldNames returns the names of the fields that the message may have here.
func (s slot) fieldNames() []string {
	var names []string
	if m := s.message(); m != nil {
		for i := range m.Fields().Len() {
			names = append(names, m.Fields().Get(i).JSONName())
		}
	}
	return names
}
