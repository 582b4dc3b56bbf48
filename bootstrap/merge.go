package bootstrap

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Merge puts an override over a bootstrap, both JSON objects, as Envoy does with --config-yaml: by protobuf's
// MergeFrom. Scalars replace, messages merge, lists append, entries of maps and typed configurations are replaced as a
// whole, and of a oneof the override's member stays. A value that proto3 cannot tell from unset replaces nothing: "",
// 0, false, and an enum's first value. A field that Envoy does not know is left for Envoy to refuse.
func Merge(bootstrap, override []byte) ([]byte, error) {
	s := parseFields(fieldsText)
	into, err := parseObject(s, bootstrap)
	if err != nil {
		return nil, fmt.Errorf("merge bootstrap: %w", err)
	}
	from, err := parseObject(s, override)
	if err != nil {
		return nil, fmt.Errorf("merge bootstrap override: %w", err)
	}
	if err := s.merge(into, from, root, ""); err != nil {
		return nil, fmt.Errorf("merge bootstrap override: %w", err)
	}
	text, err := marshal(into)
	if err != nil {
		return nil, fmt.Errorf("write merged bootstrap: %w", err)
	}
	return indent([]byte(text))
}

// merge changes into, and may keep parts of from.
func (s schema) merge(into, from map[string]any, name, at string) error {
	for key, value := range from {
		f, known := s[name][key]
		if !known {
			into[key] = value
			continue
		}
		if f.oneof != "" {
			s.clearOthers(into, name, f)
		}
		old, present := into[key]
		if !present {
			into[key] = value
			continue
		}
		merged, err := s.mergeField(f, old, value, at+key)
		if err != nil {
			return err
		}
		into[key] = merged
	}
	return nil
}

// clearOthers keeps one member of a oneof.
func (s schema) clearOthers(into map[string]any, name string, f field) {
	for _, other := range s[name] {
		if other.oneof == f.oneof && other.name != f.name {
			delete(into, other.name)
		}
	}
}

func (s schema) mergeField(f field, old, value any, at string) (any, error) {
	switch f.kind {
	case kindMessage:
		return old, s.merge(old.(map[string]any), value.(map[string]any), f.argument, at+".")
	case kindMap:
		maps.Copy(old.(map[string]any), value.(map[string]any))
		return old, nil
	case kindAny:
		return mergeAny(old.(map[string]any), value.(map[string]any)), nil
	case kindList:
		return slices.Concat(old.([]any), value.([]any)), nil
	case kindDuration:
		merged, err := mergeDuration(old, value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		return merged, nil
	case kindScalar, kindEnum:
		if f.oneof == "" && f.isZero(value) {
			return old, nil
		}
	case kindWrapper:
		if f.isZero(value) {
			return old, nil
		}
	}
	return value, nil
}

// mergeAny has the type and the bytes of an Any as its two fields: an object with only a type has no bytes.
func mergeAny(old, value map[string]any) any {
	const typeURL = "@type"
	if len(value) > 1 {
		return value
	}
	if name, ok := value[typeURL]; ok {
		old[typeURL] = name
	}
	return old
}

// isZero reports whether a scalar is what protobuf takes for unset. A number may be a text, an enum is its name or its
// number.
func (f field) isZero(value any) bool {
	switch v := value.(type) {
	case bool:
		return !v
	case string:
		return v == "" || f.kind == kindEnum && v == f.argument || f.argument == "number" && v == "0"
	case json.Number:
		number, err := v.Float64()
		return err == nil && number == 0
	}
	return false
}

// fieldsText tells of each message its name, and below that of each field: name, kind, argument ("-" for none) and
// the oneof that it is of, if any. A merge needs no more of Envoy's protos; all of them would be larger than the agent.
//
//go:embed fields.txt
var fieldsText string

// kind is how a field is merged, and its type in JSON.
type kind string

const (
	kindScalar   kind = "scalar"   // replaced, unless by its zero value; the argument is text or number
	kindEnum     kind = "enum"     // likewise; the argument is the zero value's name
	kindMessage  kind = "message"  // merged; the argument is its type
	kindList     kind = "list"     // appended to
	kindMap      kind = "map"      // entries are replaced; a Struct too
	kindWrapper  kind = "wrapper"  // a message with one scalar, whose argument it has; in JSON that scalar
	kindDuration kind = "duration" // a message of two numbers, in JSON one text: seconds and nanoseconds are replaced
	kindAny      kind = "any"      // replaced; what is in it is not looked at
)

type field struct {
	name     string // as protos spell it: snake_case
	kind     kind
	argument string
	oneof    string // empty for none
}

type message map[string]field // by both spellings of JSON

type schema map[string]message // by full name

const root = "envoy.config.bootstrap.v3.Bootstrap"

func parseFields(text string) schema {
	s := schema{}
	var current message
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "#"):
		case !strings.HasPrefix(line, "\t"):
			current = message{}
			s[words[0]] = current
		default:
			f := field{name: words[0], kind: kind(words[1]), argument: words[2]}
			if len(words) > 3 {
				f.oneof = words[3]
			}
			current[f.name], current[camel(f.name)] = f, f
		}
	}
	return s
}

// camel is protobuf's other spelling: "node_context" is "nodeContext".
func camel(snake string) string {
	var out strings.Builder
	upper := false
	for _, r := range snake {
		switch {
		case r == '_':
			upper = true
		case upper && r >= 'a' && r <= 'z':
			out.WriteRune(r - 'a' + 'A')
			upper = false
		default:
			out.WriteRune(r)
			upper = false
		}
	}
	return out.String()
}

// parseObject reads a bootstrap, its fields by the protos' spelling.
func parseObject(s schema, text []byte) (map[string]any, error) {
	object, err := decodeObject(text)
	if err != nil {
		return nil, err
	}
	return s.normalize(object, root, "")
}

// decodeObject reads a JSON object. Its numbers stay the text that they are.
func decodeObject(text []byte) (map[string]any, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err := decoder.Decode(&value)
	if err == nil && decoder.More() {
		err = errors.New("more follows the object")
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("is empty")
	}
	object, ok := value.(map[string]any)
	if err == nil && !ok {
		err = fmt.Errorf("is %s", jsonType(value))
	}
	if err != nil {
		return nil, fmt.Errorf("want a JSON object: %s%w", lineOf(text, err), err)
	}
	return object, nil
}

// normalize returns a message without what is null, which is unset, and with one spelling of its fields.
func (s schema) normalize(in map[string]any, name, at string) (map[string]any, error) {
	out := make(map[string]any, len(in))
	for key, value := range in {
		f, known := s[name][key]
		if !known {
			out[key] = value
			continue
		}
		here := at + f.name
		if _, twice := out[f.name]; twice {
			return nil, fmt.Errorf("%s: is there twice, as %s and as %s", here, f.name, camel(f.name))
		}
		if value == nil {
			continue
		}
		value, err := s.normalizeField(f, value, here)
		if err != nil {
			return nil, err
		}
		out[f.name] = value
	}
	return out, nil
}

// normalizeField refuses what has another JSON type than the field.
func (s schema) normalizeField(f field, value any, at string) (any, error) {
	object, isObject := value.(map[string]any)
	_, isList := value.([]any)
	want, ok := "a value, no object or list", !isObject && !isList
	switch f.kind {
	case kindMessage:
		if isObject {
			return s.normalize(object, f.argument, at+".")
		}
		want, ok = "an object", false
	case kindMap, kindAny:
		want, ok = "an object", isObject
	case kindList:
		want, ok = "a list", isList
	case kindDuration:
		_, err := parseDuration(value)
		want, ok = `a duration, such as "1.5s"`, err == nil
	}
	if !ok {
		return nil, fmt.Errorf("%s: is %s, want %s", at, jsonType(value), want)
	}
	return value, nil
}

func jsonType(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return fmt.Sprintf("%q", v)
	default:
		return fmt.Sprint(v)
	}
}

// duration is protobuf's: two numbers of one sign.
type duration struct{ seconds, nanos int64 }

// parseDuration reads protobuf's JSON of one: "-1.5s".
func parseDuration(value any) (duration, error) {
	text, _ := value.(string)
	number, unit := strings.CutSuffix(text, "s")
	number, negative := strings.CutPrefix(number, "-")
	seconds, fraction, _ := strings.Cut(number, ".")
	d, okSeconds := digits(seconds)
	nanos, okNanos := digits(fraction + strings.Repeat("0", max(0, 9-len(fraction))))
	if len(fraction) > 9 || !unit || !okSeconds || !okNanos {
		return duration{}, fmt.Errorf("%v: want a duration, such as \"1.5s\"", value)
	}
	if negative {
		d, nanos = -d, -nanos
	}
	return duration{d, nanos}, nil
}

// digits reads a number of up to twelve digits, which are those of the longest duration.
func digits(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil && len(text) <= 12
}

// mergeDuration replaces each of the two numbers that is not 0: "0s" replaces nothing, and "1s" over "0.5s" is "1.5s".
func mergeDuration(old, value any) (any, error) {
	d, err := parseDuration(old)
	if err != nil {
		return nil, err
	}
	by, err := parseDuration(value)
	if err != nil {
		return nil, err
	}
	if by.seconds != 0 {
		d.seconds = by.seconds
	}
	if by.nanos != 0 {
		d.nanos = by.nanos
	}
	if d.seconds < 0 && d.nanos > 0 || d.seconds > 0 && d.nanos < 0 {
		return nil, fmt.Errorf("%v over %v is no duration: protobuf replaces seconds and nanoseconds alone", value, old)
	}
	return d.String(), nil
}

func (d duration) String() string {
	sign := ""
	if d.seconds < 0 || d.nanos < 0 {
		sign, d.seconds, d.nanos = "-", -d.seconds, -d.nanos
	}
	text := sign + strconv.FormatInt(d.seconds, 10)
	if d.nanos != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%09d", d.nanos), "0")
	}
	return text + "s"
}
