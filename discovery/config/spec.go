package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
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
		w.node(n, place{parent: -1, step: step{name: "spec"}, line: line, slot: slot{root: m.ProtoReflect().Descriptor()}}, "",
			false, 0)
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
	w.node(n, place{parent: -1, step: step{name: "spec"}, line: line, slot: slot{root: m.ProtoReflect().Descriptor()}}, "", false, 0)
	return w.places
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
		message = fmt.Sprintf("is %s, want %s", short([]any{describe(p.node)})[0], p.slot.want())
	case strings.HasSuffix(message, "is already set") && p.slot.field != nil && p.slot.field.ContainingOneof() != nil:
		message = "is given beside another, want one of " + strings.Join(alternatives(p.slot.field), ", ")
	}
	return Problem{Line: p.line, Severity: Error, Path: w.places.path(at), Message: message}
}
