package config

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// A sample is an object with n elements in one of its lists or maps.
type sample struct {
	name string
	text func(n int) string // of its spec, as JSON
}

// samples returns samples for every list and map below a message, in several forms: equal elements, different ones, empty
// ones, and those of characters that no name has. around is the JSON around the place.
func samples(m protoreflect.MessageDescriptor, path string, around func(string) string, depth int) (out []sample) {
	if depth > 6 || m.ParentFile().Package() == "google.protobuf" {
		return nil
	}
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		at := path + "." + fd.JSONName()
		field := func(value string) string { return around(fmt.Sprintf(`{%q: %s}`, fd.JSONName(), value)) }
		if fd.IsMap() || fd.IsList() {
			for form, text := range map[string]func(int) string{
				"equal": func(int) string { return "a" }, "different": func(i int) string { return fmt.Sprintf("a%d.b", i) },
				"bad": func(int) string { return "a\u001b[2J\n_" }, "own": func(i int) string { return fmt.Sprintf(`\\d{%d} %%A%%`, i) },
				"empty": func(int) string { return "" },
			} {
				out = append(out, sample{at + " " + form, func(n int) string {
					var b strings.Builder
					for i := range n {
						if i > 0 {
							b.WriteByte(',')
						}
						switch {
						case fd.IsMap() && form == "different":
							fmt.Fprintf(&b, "%q: %s", text(i), element(fd.MapValue(), "a", 0))
						case fd.IsMap(): // equal keys are one key
							fmt.Fprintf(&b, "%q: %s", fmt.Sprint(text(i), i), element(fd.MapValue(), text(i), 0))
						default:
							b.WriteString(element(fd, text(i), 0))
						}
					}
					if fd.IsMap() {
						return field("{" + b.String() + "}")
					}
					return field("[" + b.String() + "]")
				}})
			}
		}
		switch {
		case fd.IsMap():
		case fd.IsList() && fd.Message() != nil:
			out = append(out, samples(fd.Message(), at+"[0]", func(in string) string { return field("[" + in + "]") }, depth+1)...)
		case fd.Message() != nil:
			out = append(out, samples(fd.Message(), at, field, depth+1)...)
		}
	}
	return out
}

// element returns the JSON of a value whose texts are all the same.
func element(fd protoreflect.FieldDescriptor, text string, depth int) string {
	m := fd.Message()
	switch {
	case m == nil:
		return scalarOf(fd, text)
	case m.FullName() == duration:
		return `"1s"`
	case m.ParentFile().Package() == "google.protobuf":
		if value := m.Fields().ByName("value"); value != nil && value.Message() == nil && !value.IsMap() {
			return scalarOf(value, text)
		}
		return "{}"
	case depth == 4 || text == "":
		return "{}"
	}
	var fields, chosen []string
	for i := range m.Fields().Len() {
		below := m.Fields().Get(i)
		if one := below.ContainingOneof(); one != nil {
			if slices.Contains(chosen, string(one.Name())) {
				continue
			}
			chosen = append(chosen, string(one.Name()))
		}
		var value string
		switch {
		case below.IsMap():
			value = fmt.Sprintf("{%q: %s}", text, element(below.MapValue(), text, depth+1))
		case below.IsList():
			value = "[" + element(below, text, depth+1) + "]"
		default:
			value = element(below, text, depth+1)
		}
		fields = append(fields, fmt.Sprintf("%q: %s", below.JSONName(), value))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func scalarOf(fd protoreflect.FieldDescriptor, text string) string {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return fmt.Sprintf("%q", text)
	case protoreflect.BytesKind:
		return `""`
	case protoreflect.BoolKind:
		return "true"
	case protoreflect.EnumKind:
		return fmt.Sprintf("%q", fd.Enum().Values().Get(fd.Enum().Values().Len()-1).Name())
	default:
		return "1"
	}
}

// cost is what it costs to judge an object: the steps of its rules, and the bytes that are allocated.
type cost struct{ steps, bytes int }

func costOf(k kind, spec string) (cost, time.Duration) {
	roots, fault := documents([]byte(spec))
	if fault != nil {
		panic(fmt.Sprint(fault, spec[:min(len(spec), 1000)]))
	}
	var r report
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	r.body(k, envelope{spec: roots[0], specLine: 1}, k.spec())
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	return cost{r.steps, int(after.TotalAlloc - before.TotalAlloc)}, took
}

// grows measures a small and a large object, and reports whether the large one costs no more than times as much. What
// grows with the square costs times² as much; Go's maps and lists grow in steps. Under the race detector a sync.Pool forgets
// at random what it has, which adds up to half the bytes: of five measurements the small object's most and the large one's
// fewest count.
func grows(k kind, small, large string, times int) (a, b cost, linear bool) {
	for i := range 5 {
		one, _ := costOf(k, small)
		many, _ := costOf(k, large)
		if i == 0 || one.bytes > a.bytes {
			a = one
		}
		if i == 0 || many.bytes < b.bytes {
			b = many
		}
		if linear = b.steps <= times*a.steps && b.bytes <= 12*a.bytes+100<<10; linear {
			break
		}
	}
	return a, b, linear
}

// An object of eight times the size costs about eight times as much to judge, whichever of its lists is long, and whatever is in it: the
// author of a large one must not hold the configuration of others.
func TestCostIsLinear(t *testing.T) {
	tested := 0
	for _, name := range KindNames() {
		k, served := kindOf(bestOf(name), name)
		if !served {
			k, _ = settingsKind(name)
		}
		for _, s := range samples(k.spec().ProtoReflect().Descriptor(), name, func(in string) string { return in }, 0) {
			const n, times = 50, 8 // below fifty a fault costs less: fewer than a hundred are named
			tested++
			small, large, linear := grows(k, s.text(n), s.text(times*n), times)
			if !linear {
				t.Errorf("%s: %d elements cost %+v, %d %+v", s.name, n, small, times*n, large)
			}
		}
	}
	if tested < 500 {
		t.Errorf("only %d lists and forms are tested", tested)
	}
}
