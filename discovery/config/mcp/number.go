package mcp

import (
	"bytes"
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// encode writes a message in the JSON of Kubernetes: protobuf's puts numbers of 64 bits in quotes, and no API server
// accepts them so.
func encode(m proto.Message) ([]byte, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(unquote(value, m.ProtoReflect().Descriptor()))
}

// unquote takes the quotes from the numbers of 64 bits in a message.
func unquote(value any, of protoreflect.MessageDescriptor) any {
	switch of.FullName() {
	case "google.protobuf.Int64Value", "google.protobuf.UInt64Value":
		return number(value)
	}
	fields, ok := value.(map[string]any)
	if !ok || strings.HasPrefix(string(of.FullName()), "google.protobuf.") {
		return value // of a form of its own
	}
	for key, v := range fields {
		if f := of.Fields().ByJSONName(key); f != nil {
			fields[key] = unquoteField(v, f)
		}
	}
	return fields
}

func unquoteField(value any, f protoreflect.FieldDescriptor) any {
	one := func(v any, f protoreflect.FieldDescriptor) any {
		switch f.Kind() {
		case protoreflect.MessageKind, protoreflect.GroupKind:
			return unquote(v, f.Message())
		case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
			return number(v)
		default:
			return v
		}
	}
	switch v := value.(type) {
	case []any:
		if f.IsList() {
			for i := range v {
				v[i] = one(v[i], f)
			}
			return v
		}
	case map[string]any:
		if f.IsMap() {
			for key := range v {
				v[key] = one(v[key], f.MapValue())
			}
			return v
		}
	}
	return one(value, f)
}

func number(value any) any {
	if text, ok := value.(string); ok {
		return json.Number(text)
	}
	return value
}
