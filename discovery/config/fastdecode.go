package config

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// fastDecoder fills a message from nodes without JSON in between. It supports the forms of nearly every object, and
// gives up on others: decodeSpec reads and judges values that are or may be wrong, and rare forms.
type fastDecoder struct {
	lines []byte // becomes model.Lines
	last  int    // the line of the place that was added last
	names []byte // of the path to a node
}

// above is the nearest place at or above a node that has a line of its own.
type above struct {
	depth, line int
	names       int // where the names below it begin
}

// decodeFast returns false if it gives up; m must then be discarded.
func decodeFast(n *yaml.Node, line, from int, m proto.Message) (model.Lines, bool) {
	s := fastDecoder{last: from, lines: make([]byte, 0, 256), names: make([]byte, 0, 64)}
	s.names = append(s.names, "spec"...)
	ok := s.message(n, m.ProtoReflect(), s.place(line, above{line: from}))
	return model.Lines(s.lines), ok
}

// place records the line of the node with the present names.
func (s *fastDecoder) place(line int, a above) above {
	if line == a.line {
		return a
	}
	s.lines = model.AppendPlace(s.lines, a.depth, line-s.last, string(s.names[a.names:]))
	s.last = line
	return above{a.depth + 1, line, len(s.names)}
}

func (s *fastDecoder) message(n *yaml.Node, m protoreflect.Message, a above) bool {
	d := m.Descriptor()
	if d.ParentFile().Package() == "google.protobuf" {
		return s.known(n, m)
	}
	if n.Kind != yaml.MappingNode || n.Style&yaml.TaggedStyle != 0 {
		return false
	}
	var seen [8]protoreflect.FieldNumber
	given := seen[:0]
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if !plainKey(key) {
			return false
		}
		fd := d.Fields().ByJSONName(key.Value)
		if fd == nil {
			return false
		}
		for _, number := range given {
			if number == fd.Number() {
				return false
			}
		}
		given = append(given, fd.Number())
		if one := fd.ContainingOneof(); one != nil && m.WhichOneof(one) != nil {
			return false
		}
		from := len(s.names)
		s.names = append(append(s.names, '.'), key.Value...)
		if !s.field(value, m, fd, s.place(key.Line, a)) {
			return false
		}
		s.names = s.names[:from]
	}
	return true
}

// plainKey reports whether a key is plain text: no alias, no merge, no list.
func plainKey(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.Style&yaml.TaggedStyle == 0 && key.Value != "<<" && utf8.ValidString(key.Value)
}

func (s *fastDecoder) field(n *yaml.Node, m protoreflect.Message, fd protoreflect.FieldDescriptor, a above) bool {
	switch {
	case fd.IsMap():
		return s.entries(n, fd, m.Mutable(fd).Map(), a)
	case fd.IsList():
		return s.items(n, fd, m.Mutable(fd).List(), a)
	case fd.Message() != nil:
		return s.message(n, m.Mutable(fd).Message(), a)
	default:
		v, ok := value(n, fd)
		if ok {
			m.Set(fd, v)
		}
		return ok
	}
}

func (s *fastDecoder) entries(n *yaml.Node, fd protoreflect.FieldDescriptor, to protoreflect.Map, a above) bool {
	if n.Kind != yaml.MappingNode || n.Style&yaml.TaggedStyle != 0 || fd.MapKey().Kind() != protoreflect.StringKind {
		return false
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		if !plainKey(name) {
			return false
		}
		key := protoreflect.ValueOfString(strings.Clone(name.Value)).MapKey()
		if to.Has(key) {
			return false
		}
		from := len(s.names)
		s.names = append(append(s.names, '.'), name.Value...)
		at := s.place(name.Line, a)
		v, ok := to.NewValue(), false
		if fd.MapValue().Message() != nil {
			ok = s.message(n.Content[i+1], v.Message(), at)
		} else {
			v, ok = value(n.Content[i+1], fd.MapValue())
		}
		if !ok {
			return false
		}
		to.Set(key, v)
		s.names = s.names[:from]
	}
	return true
}

func (s *fastDecoder) items(n *yaml.Node, fd protoreflect.FieldDescriptor, to protoreflect.List, a above) bool {
	if n.Kind != yaml.SequenceNode || n.Style&yaml.TaggedStyle != 0 {
		return false
	}
	for i, item := range n.Content {
		from := len(s.names)
		s.names = append(strconv.AppendInt(append(s.names, '['), int64(i), 10), ']')
		at := s.place(item.Line, a)
		v, ok := to.NewElement(), false
		if fd.Message() != nil {
			ok = s.message(item, v.Message(), at)
		} else {
			v, ok = value(item, fd)
		}
		if !ok {
			return false
		}
		to.Append(v)
		s.names = s.names[:from]
	}
	return true
}

// known fills the messages of protobuf that JSON writes as a scalar: durations and wrappers.
func (*fastDecoder) known(n *yaml.Node, m protoreflect.Message) bool {
	if n.Kind != yaml.ScalarNode {
		return false
	}
	if to, ok := m.Interface().(*durationpb.Duration); ok {
		d, err := time.ParseDuration(n.Value)
		if err == nil {
			to.Seconds, to.Nanos = int64(d/time.Second), int32(d%time.Second)
		}
		return err == nil
	}
	fd := m.Descriptor().Fields().ByName("value")
	if fd == nil || fd.Message() != nil || fd.IsList() || fd.IsMap() || !strings.HasSuffix(string(m.Descriptor().Name()), "Value") {
		return false
	}
	v, ok := value(n, fd)
	if ok {
		m.Set(fd, v)
	}
	return ok
}

// value reads a scalar that is clearly of the field's type.
func value(n *yaml.Node, fd protoreflect.FieldDescriptor) (v protoreflect.Value, ok bool) {
	if n.Kind != yaml.ScalarNode || n.Style&yaml.TaggedStyle != 0 || !utf8.ValidString(n.Value) {
		return v, false
	}
	form := text
	if n.Style&quoted == 0 {
		form = formOf(n.Value)
	}
	switch kind := fd.Kind(); {
	case kind == protoreflect.StringKind:
		return protoreflect.ValueOfString(strings.Clone(n.Value)), form == text // n.Value is a part of the document
	case kind == protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n.Value == "true"), form == boolean
	case kind == protoreflect.EnumKind && form == text:
		if found := fd.Enum().Values().ByName(protoreflect.Name(n.Value)); found != nil {
			return protoreflect.ValueOfEnum(found.Number()), true
		}
	case form == number9:
		i, err := strconv.ParseInt(n.Value, 10, 32)
		return integerOf(kind, i), err == nil && integerOf(kind, i).IsValid()
	}
	return v, false
}

func integerOf(kind protoreflect.Kind, i int64) (v protoreflect.Value) {
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(i))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(i))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(i)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(i))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(i))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(i))
	default:
		return v
	}
}

// form is the type that an unquoted scalar clearly has.
type form int

const (
	unclear form = iota // needs a closer check
	text
	boolean
	number9 // a whole number of at most nine digits, not negative
)

func formOf(v string) form {
	if v == "true" || v == "false" {
		return boolean
	}
	if v == "" {
		return unclear
	}
	digits, dots, others := 0, 0, 0
	for i := range len(v) {
		switch c := v[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c == '.':
			dots++
		case strings.IndexByte("xoeE+-abcdfABCDF", c) < 0: // none of the characters that a number may hold
			others++
		}
	}
	letter := v[0]|0x20 >= 'a' && v[0]|0x20 <= 'z'
	switch {
	case digits == len(v) && digits < 10 && (v[0] != '0' || digits == 1):
		return number9
	case (others > 0 || letter || dots > 1 && digits > 0) && !word(v):
		return text
	default:
		return unclear
	}
}

// word reports whether v may be one of the words with a meaning in YAML.
func word(v string) bool {
	switch strings.ToLower(v) {
	case "~", "null", "true", "false", ".nan", ".inf", "+.inf", "-.inf":
		return true
	default:
		return false
	}
}
