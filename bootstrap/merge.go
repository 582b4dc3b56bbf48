package bootstrap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Merge puts an override over a bootstrap, both JSON objects, as Envoy does with --config-yaml: by protobuf's
// MergeFrom. Scalars replace, messages merge, lists append, entries of maps and typed configurations are replaced as a
// whole, and of a oneof the override's member stays. What proto3 cannot tell from unset replaces nothing: "", 0, false,
// and an enum's first value. A field that Envoy does not know is left for Envoy to refuse.
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

// mergeAny has the type and the bytes of an Any as its two fields: what holds nothing but a type has no bytes.
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
