package config

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// For each wrong value the object is read once more: maxFaults is how many of one object are reported, and maxReread
// how many bytes of JSON are read for them, so that a large object with many faults is not read twenty times.
const (
	maxFaults = 20
	maxReread = 4 << 20
)

// position matches the place of a fault in an error of protojson; the text after it is the fault.
var position = regexp.MustCompile(`\(line (\d+):\d+\): (.*)$`)

// decodeSpec fills m from a node. protojson stops at the first fault: decodeSpec then leaves that place out, and reads
// again.
func decodeSpec(n *yaml.Node, line int, m proto.Message, done func() bool) (found places, faults []Problem) {
	skip := map[string]bool{}
	for read := 0; ; {
		w := writer{reader: newReader(), skip: skip}
		w.node(n, specPlace(line, m), "", false, 0)
		if w.fault != nil {
			return w.places, append(faults, *w.fault)
		}
		if len(skip) == 0 {
			found, faults = w.places, w.unknown.all(line, "spec")
		}
		err := protojson.Unmarshal(w.json.Bytes(), m)
		if err == nil {
			return found, faults
		}
		fault := w.explain(err)
		faults = append(faults, fault)
		if fault.Path == "spec" || skip[fault.Path] || done() {
			return found, faults
		}
		if read += w.json.Len(); len(skip) == maxFaults || read > maxReread {
			return found, append(faults, Problem{
				Line: line, Severity: Error, Path: "spec", Message: "may have more values that cannot be read: these are not looked for",
			})
		}
		skip[fault.Path] = true
	}
}

// alternatives returns the names of the fields of which only one may be given.
func alternatives(f protoreflect.FieldDescriptor) (names []string) {
	fields := f.ContainingOneof().Fields()
	for i := range fields.Len() {
		names = append(names, fields.Get(i).JSONName())
	}
	return names
}

// placesOf returns the places of the nodes of a message that was read without a fault.
func placesOf(n *yaml.Node, line int, m proto.Message) places {
	w := writer{reader: newReader()}
	w.node(n, specPlace(line, m), "", false, 0)
	return w.places
}

func specPlace(line int, m proto.Message) place {
	return place{parent: -1, step: step{name: "spec"}, line: line, typ: fieldType{root: m.ProtoReflect().Descriptor()}}
}

// explain converts an error of protojson to a problem of the file.
func (w *writer) explain(err error) Problem {
	m := position.FindStringSubmatch(err.Error())
	if m == nil {
		return Problem{Line: w.places[0].line, Severity: Error, Path: "spec", Message: err.Error()}
	}
	line, _ := strconv.Atoi(m[1]) // digits, by the pattern
	at := min(max(line, 1), len(w.places)) - 1
	p, message := w.places[at], m[2]
	switch {
	case strings.HasPrefix(message, "invalid value"), strings.HasPrefix(message, "unexpected token"),
		strings.HasPrefix(message, "invalid google.protobuf.Duration"):
		message = fmt.Sprintf("is %s, want %s", short([]any{describe(p.node)})[0], p.typ.want())
	case strings.HasSuffix(message, "is already set") && p.typ.field != nil && p.typ.field.ContainingOneof() != nil:
		message = "is given beside another, want one of " + strings.Join(alternatives(p.typ.field), ", ")
	}
	return Problem{Line: p.line, Severity: Error, Path: w.places.path(at), Message: message}
}

// writer writes nodes as JSON, each on a line of its own, so that a line of the JSON is an index of places.
type writer struct {
	*reader
	json    bytes.Buffer
	places  places
	skip    map[string]bool // paths to leave out: their faults are known
	unknown problemList     // fields that their message does not have, which are left out as well
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
		w.json.WriteString(p.typ.scalar(n))
	}
}

func (w *writer) object(n *yaml.Node, at int, aliased bool, depth int) {
	w.json.WriteByte('{')
	comma := ""
	for _, e := range w.entries(n, aliased, depth) {
		below, known := w.places[at].typ.child(e.key)
		p := place{
			parent: at, line: e.line, typ: below,
			step: step{name: e.key, key: !known || below.element || below.field == nil},
		}
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
		p := place{parent: at, step: step{item: i + 1}, line: item.Line, typ: w.places[at].typ.item()}
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
			Message: fmt.Sprintf("unknown field %q%s",
				short([]any{key})[0], suggest(key, w.places[p.parent].typ.fieldNames())),
		})
	}
}

// scalar writes a scalar as protojson reads it. Istio accepts a duration in any unit, protobuf's JSON in seconds only.
// No API server accepts a number in quotes; protobuf's JSON does.
func (s fieldType) scalar(n *yaml.Node) string {
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
func (s fieldType) fieldNames() []string {
	var names []string
	if m := s.message(); m != nil {
		for i := range m.Fields().Len() {
			names = append(names, m.Fields().Get(i).JSONName())
		}
	}
	return names
}

// fieldType is the type that protobuf expects at a place: a message at the root, a field, or one element of a repeated
// field. The zero fieldType accepts anything.
type fieldType struct {
	root    protoreflect.MessageDescriptor
	field   protoreflect.FieldDescriptor
	element bool // of a list, or a value of a map
}

const duration = "google.protobuf.Duration"

// message returns the message type that is expected here, nil if another type is.
func (s fieldType) message() protoreflect.MessageDescriptor {
	switch {
	case s.field == nil:
		return s.root
	case s.field.IsMap() && s.element:
		return s.field.MapValue().Message()
	case s.field.IsMap(), s.field.IsList() && !s.element:
		return nil
	default:
		return s.field.Message()
	}
}

// child returns the type of a key; false if the message has no such field.
func (s fieldType) child(key string) (fieldType, bool) {
	if s.field != nil && s.field.IsMap() && !s.element {
		return fieldType{field: s.field, element: true}, true
	}
	m := s.message()
	if m == nil || m.ParentFile().Package() == "google.protobuf" { // not checked here: a Struct may have any keys
		return fieldType{}, true
	}
	field := m.Fields().ByJSONName(key)
	if field == nil {
		field = m.Fields().ByTextName(key)
	}
	return fieldType{field: field}, field != nil
}

// item returns the type of a list's elements.
func (s fieldType) item() fieldType {
	if s.field != nil && s.field.IsList() && !s.element {
		return fieldType{field: s.field, element: true}
	}
	return fieldType{}
}

// want returns a text for users that describes the expected value.
func (s fieldType) want() string {
	if m := s.message(); m != nil {
		switch {
		case m.FullName() == duration:
			return "a duration such as 1.5s or 200ms"
		case m.ParentFile().Package() == "google.protobuf" && m.Fields().ByName("value") != nil: // a wrapper
			return fieldType{field: m.Fields().ByName("value")}.want()
		}
		return "an object"
	}
	if s.field == nil {
		return "another value"
	}
	field := s.field
	switch {
	case field.IsMap() && s.element:
		field = field.MapValue()
	case field.IsMap():
		return "an object"
	case field.IsList() && !s.element:
		return "a list"
	}
	switch field.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind:
		return "a string"
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return "a number"
	case protoreflect.EnumKind:
		var names []string
		for values, i := field.Enum().Values(), 0; i < values.Len(); i++ {
			names = append(names, string(values.Get(i).Name()))
		}
		return "one of " + strings.Join(names, ", ")
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return "a whole number, not negative"
	default:
		return "a whole number"
	}
}

// enum returns the enumeration of the expected value, nil for any other type.
func (s fieldType) enum() protoreflect.EnumDescriptor {
	if s.field == nil || s.message() != nil || s.field.IsMap() || s.field.IsList() && !s.element {
		return nil
	}
	return s.field.Enum()
}

// number reports whether a number is expected here, by itself or in a wrapper.
func (s fieldType) number() bool {
	if m := s.message(); m != nil {
		value := m.Fields().ByName("value")
		return m.ParentFile().Package() == "google.protobuf" && value != nil && fieldType{field: value}.number()
	}
	field := s.field
	if field != nil && field.IsMap() && s.element {
		field = field.MapValue()
	}
	if field == nil || field.IsMap() || field.IsList() && !s.element {
		return false
	}
	switch field.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.BoolKind, protoreflect.EnumKind, protoreflect.MessageKind:
		return false
	default:
		return true
	}
}
