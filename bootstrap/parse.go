package bootstrap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

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
