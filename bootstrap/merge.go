package bootstrap

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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
