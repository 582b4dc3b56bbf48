package config

import (
	_ "embed" // support.txt
	_ "embed" // verdicts.txt, simulated.txt, policies.txt
	"slices"
	"sort"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// supportTable describes the support of each field: under "# Kind" a line "path: how it maps", or "path: ! why it is
// refused", by paths of JSON names without indexes. A line applies to all fields below its path that have no line of
// their own; "*" to all fields without a line. docs/compat.md is the same table.
//
//go:embed support.txt
var supportTable string

// Support describes the support of one field of a kind, and of all fields below it that have no entry of their own.
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

// support reports every field that is set and not served.
func (k kind) support(f field, m proto.Message) {
	walker{kind: k.name}.message(m.ProtoReflect(), branches[k.name], f)
}

// branch is a place of the table: its support, and the places below it that have lines of their own.
type branch struct {
	of       Support
	found    bool // or a place above it has a line
	below    map[string]*branch
	reported []protoreflect.FieldDescriptor // by number: the fields that have something to report, themselves or below them
}

// branches are the tables of all kinds, which are read once.
var branches = func() map[string]*branch {
	out := map[string]*branch{}
	for _, name := range KindNames() {
		entries := SupportOf(name)
		root := &branch{}
		root.of, root.found = entryOf(entries, "")
		out[name] = root
		for _, e := range entries {
			at, path := root, ""
			for part := range strings.SplitSeq(e.Path, ".") {
				path = strings.TrimPrefix(path+"."+part, ".")
				next := at.below[part]
				if next == nil {
					next = &branch{}
					next.of, next.found = entryOf(entries, path)
					if at.below == nil {
						at.below = map[string]*branch{}
					}
					at.below[part] = next
				}
				at = next
			}
		}
		k, served := kindOf(bestOf(name), name)
		if !served {
			k, _ = settingsKind(name)
		}
		root.prune(k.spec().ProtoReflect().Descriptor())
	}
	return out
}()

// prune records which fields of a message must be checked. It reports whether there are any.
func (b *branch) prune(m protoreflect.MessageDescriptor) bool {
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		next, below := b.next(fd)
		if below {
			message := fd.Message()
			if fd.IsMap() {
				message = fd.MapValue().Message()
			}
			below = message != nil && next.prune(message)
		}
		if below || !next.divides(fd) && !next.served() {
			b.reported = append(b.reported, fd)
		}
	}
	sort.Slice(b.reported, func(i, j int) bool { return b.reported[i].Number() < b.reported[j].Number() })
	return len(b.reported) > 0
}

// next returns the branch that applies to a field, and whether the table has lines for fields below the field.
func (b *branch) next(fd protoreflect.FieldDescriptor) (*branch, bool) {
	if below := b.below[fd.JSONName()]; below != nil {
		return below, below.divides(fd)
	}
	return &branch{of: b.of, found: b.found}, false
}

// divides reports whether the table has lines for fields below a field.
func (b *branch) divides(fd protoreflect.FieldDescriptor) bool {
	return fd.Message() != nil && len(b.below) > 0
}

func (b *branch) served() bool { return b.found && b.of.Served }

// walker goes through the fields that are set in an object.
type walker struct{ kind string }

// supportPath returns the path of a place in the table: without items and keys.
func (w *fieldPath) supportPath() string {
	if w.parent == nil {
		return ""
	}
	path := w.parent.supportPath()
	if w.item > 0 || w.key {
		return path
	}
	return strings.TrimPrefix(path+"."+w.name, ".")
}

func (w walker) message(m protoreflect.Message, b *branch, at field) {
	for _, fd := range b.reported {
		if !m.Has(fd) {
			continue
		}
		here := at.at(fd.JSONName())
		if next, below := b.next(fd); below {
			w.value(fd, m.Get(fd), next, here)
		} else {
			here.warnf("%s.%s is not supported, ignored%s", w.kind, here.path.supportPath(), withReason(next.of.Note))
		}
	}
}

func withReason(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// entryOf returns the entry that applies to a path: its own, else the nearest above it.
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

// value goes through the messages of a field that is served in part.
func (w walker) value(fd protoreflect.FieldDescriptor, v protoreflect.Value, b *branch, at field) {
	switch {
	case fd.IsList():
		for i := range v.List().Len() {
			w.message(v.List().Get(i).Message(), b, at.item(i))
		}
	case fd.IsMap():
		keys := make([]string, 0, v.Map().Len()) // of Istio's maps all keys are texts
		v.Map().Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
			keys = append(keys, k.String())
			return true
		})
		slices.Sort(keys)
		for _, key := range keys {
			w.message(v.Map().Get(protoreflect.ValueOfString(key).MapKey()).Message(), b, at.key(key))
		}
	default:
		w.message(v.Message(), b, at)
	}
}

var (
	//go:embed verdicts.txt
	verdictTable string
	//go:embed simulated.txt
	simulatedTable string
	//go:embed policies.txt
	policiesTable string
)

// Difference is a difference from Istio that is meant. docs/compat.md lists all.
type Difference struct {
	What, Istio, Here string
	Cases             []string // of Istio's own tests, which show it
}

// Verdicts returns the differences from the verdicts of Istio's validation.
func Verdicts() []Difference { return differences(verdictTable) }

// Simulated returns the differences from Istio in what becomes of requests, and in the configuration of a proxy.
func Simulated() []Difference { return differences(simulatedTable) }

// Policies returns the differences from Istio in the rules that Envoy gets for an AuthorizationPolicy.
func Policies() []Difference { return differences(policiesTable) }

func differences(table string) (out []Difference) {
	for line := range strings.Lines(table) {
		line = strings.TrimRight(line, "\n")
		switch name, isCase := strings.CutPrefix(line, "\t"); {
		case isCase:
			out[len(out)-1].Cases = append(out[len(out)-1].Cases, name)
		case line != "" && line[0] != '#':
			what, rest, _ := strings.Cut(line, " | ")
			istio, here, _ := strings.Cut(rest, " | ")
			out = append(out, Difference{What: what, Istio: istio, Here: here})
		}
	}
	return out
}
