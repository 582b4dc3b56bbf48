package config

import (
	"cmp"
	_ "embed" // support.txt
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// supportTable says what becomes of each field: under "# Kind" a line "path: how it maps", or "path: ! why it is
// refused", by paths of JSON names without indexes. A line holds for all below its path that has no line of its own;
// "*" for all that has none. docs/compat.md is the same table.
//
//go:embed support.txt
var supportTable string

// Support is what becomes of one field of a kind, and of all below it that has no entry of its own.
type Support struct {
	Path   string // JSON names without indexes: "http.match.uri"
	Served bool
	Note   string // how it maps, or why it is refused
}

// SupportOf returns the entries of a kind in their order; none for a kind that is not served.
func SupportOf(kind string) []Support {
	var out []Support
	_, section, _ := strings.Cut("\n"+supportTable, "\n# "+kind+"\n")
	section, _, _ = strings.Cut(section, "\n# ")
	for line := range strings.Lines(section) {
		path, note, found := strings.Cut(strings.TrimSpace(line), ": ")
		if !found {
			continue
		}
		reason, refused := strings.CutPrefix(note, "! ")
		out = append(out, Support{Path: path, Served: !refused, Note: reason})
	}
	return out
}

// support tells of every field that is set and not served.
func (k kind) support(f field, m proto.Message) {
	w := walker{SupportOf(k.name), k.name}
	w.message(f, m.ProtoReflect(), "")
}

type walker struct {
	entries []Support
	kind    string
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
		s, covered := entryOf(w.entries, path)
		switch {
		case fd.Message() != nil && divided(w.entries, path):
			w.value(at, fd, m.Get(fd), path)
		case !covered || !s.Served:
			at.warnf("%s.%s is not supported, ignored%s", w.kind, path, because(s.Note))
		}
	}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// entryOf returns the entry that holds for a path: its own, else the nearest above it.
func entryOf(entries []Support, path string) (Support, bool) {
	var best Support
	found := false
	for _, s := range entries {
		if (s.Path == path || strings.HasPrefix(path, s.Path+".") || s.Path == "*" && !found) &&
			len(s.Path) >= len(best.Path) {
			best, found = s, true
		}
	}
	return best, found
}

// divided reports whether entries tell fields below path apart.
func divided(entries []Support, path string) bool {
	return slices.ContainsFunc(entries, func(s Support) bool { return strings.HasPrefix(s.Path, path+".") })
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
