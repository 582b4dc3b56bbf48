package config

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// served says what discovery does with a kind, as paths of JSON names without indexes. All above a path is served so
// far; of what is below only what has a path of its own.
type served struct {
	fields []string

	// conditions narrow what an object applies to. Ignoring one would apply it to more than it says, so what is not
	// served below these paths is an error, elsewhere a warning.
	conditions []string
}

// support tells of every field that is set and not served.
func (k kind) support(f field, m proto.Message) {
	w := walker{k.served, string(m.ProtoReflect().Descriptor().Name())}
	w.message(f, m.ProtoReflect(), "")
}

type walker struct {
	served
	kind string
}

func (w walker) message(f field, m protoreflect.Message, above string) {
	var set []protoreflect.FieldDescriptor
	m.Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		set = append(set, fd)
		return true
	})
	slices.SortFunc(set, func(a, b protoreflect.FieldDescriptor) int { return cmp.Compare(a.Number(), b.Number()) })
	for _, fd := range set {
		path := strings.TrimPrefix(above+"."+fd.JSONName(), ".")
		at := f.at(fd.JSONName())
		switch {
		case slices.Contains(w.fields, path):
		case covers(path, w.fields):
			w.value(at, fd, m.Get(fd), path)
		case slices.ContainsFunc(w.conditions, func(c string) bool { return strings.HasPrefix(path+".", c+".") }):
			at.errorf("%s.%s is not supported; without it the object would apply to more than it says", w.kind, path)
		default:
			at.warnf("%s.%s is not supported, ignored", w.kind, path)
		}
	}
}

// value goes below a field that is served in part, which holds messages.
func (w walker) value(f field, fd protoreflect.FieldDescriptor, v protoreflect.Value, path string) {
	switch {
	case fd.IsList():
		for i := range v.List().Len() {
			w.message(f.item(i), v.List().Get(i).Message(), path)
		}
	case fd.IsMap():
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			w.message(f.at(k.String()), v.Message(), path)
			return true
		})
	default:
		w.message(f, v.Message(), path)
	}
}

// covers reports whether any of paths is below path.
func covers(path string, paths []string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(p, path+".") })
}
