package config

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// slot is the type that protobuf expects at a place: a message at the root, a field, or one element of a repeated
// field. The zero slot accepts anything.
type slot struct {
	root    protoreflect.MessageDescriptor
	field   protoreflect.FieldDescriptor
	element bool // of a list, or a value of a map
}

const duration = "google.protobuf.Duration"

// message returns the message type that is expected here, nil if another type is.
func (s slot) message() protoreflect.MessageDescriptor {
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

// child returns the slot of a key; false if the message has no such field.
func (s slot) child(key string) (slot, bool) {
	if s.field != nil && s.field.IsMap() && !s.element {
		return slot{field: s.field, element: true}, true
	}
	m := s.message()
	if m == nil || m.ParentFile().Package() == "google.protobuf" { // not checked here: a Struct may have any keys
		return slot{}, true
	}
	field := m.Fields().ByJSONName(key)
	if field == nil {
		field = m.Fields().ByTextName(key)
	}
	return slot{field: field}, field != nil
}

// item returns the slot of a list's elements.
func (s slot) item() slot {
	if s.field != nil && s.field.IsList() && !s.element {
		return slot{field: s.field, element: true}
	}
	return slot{}
}

// want returns a text for users that describes the expected value.
func (s slot) want() string {
	if m := s.message(); m != nil {
		switch {
		case m.FullName() == duration:
			return "a duration such as 1.5s or 200ms"
		case m.ParentFile().Package() == "google.protobuf" && m.Fields().ByName("value") != nil: // a wrapper
			return slot{field: m.Fields().ByName("value")}.want()
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
func (s slot) enum() protoreflect.EnumDescriptor {
	if s.field == nil || s.message() != nil || s.field.IsMap() || s.field.IsList() && !s.element {
		return nil
	}
	return s.field.Enum()
}

// number reports whether a number is expected here, by itself or in a wrapper.
func (s slot) number() bool {
	if m := s.message(); m != nil {
		value := m.Fields().ByName("value")
		return m.ParentFile().Package() == "google.protobuf" && value != nil && slot{field: value}.number()
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
