package template

import (
	"strings"
	"testing"
	"text/template"
)

// data has a value of each kind that a template may meet.
type data struct {
	Text, Empty string
	Number      int
	Port        uint16
	Part        float64
	Yes, No     bool
	List        []string
	Any         []any
	Labels      map[string]string
	Counts      map[int]string
	Deep        map[string]any
	Inner       inner
	Pointer     *inner
	Nil         *inner
	Nothing     any
	hidden      string // which a template must not reach
}

type inner struct {
	Name string
	List []int
}

func sample() data {
	return data{
		Text: "a<b>&'\"\n", Number: 7, Port: 8080, Part: 1.5, Yes: true, List: []string{"x", "y", "z"}, Any: []any{1, "two", nil, 3.5, true, uint(4)},
		Labels: map[string]string{"b": "2", "a": "1"}, Counts: map[int]string{3: "c", -1: "a"}, Deep: map[string]any{"in": map[string]any{"key": []any{"v"}}, "null": nil},
		hidden: "h", Inner: inner{"i", []int{1, 2}}, Pointer: &inner{"p", nil},
	}
}

// texts are templates of every part of the language, and of its mistakes.
var texts = []string{
	"", "plain", "{{.Text}}", "{{.Number}} {{.Port}} {{.Part}} {{.Yes}}", "{{.Nothing}}|{{.Nil}}", "{{.Pointer.Name}}{{.Inner.Name}}", "{{.Pointer}}", "{{.List}}{{.Labels}}{{.Any}}",
	"{{.None}}", "{{.hidden}}", "{{.Nil.Name}}", "{{.Nothing.Name}}", "{{.Labels.a}}", "{{.Labels.none}}", "{{.Deep.in.key}}", "{{.Deep.null}}", "{{.Deep.null.x}}", "{{.Counts.x}}", "{{.Text.x}}",
	"{{if .Yes}}yes{{else}}no{{end}}", "{{if .No}}yes{{else if .Text}}text{{else}}no{{end}}", "{{if .Empty}}a{{end}}b", "{{if not .List}}a{{else}}b{{end}}", "{{if .Nil}}a{{else}}b{{end}}", "{{if .Nothing}}a{{else}}b{{end}}",
	"{{with .Inner}}{{.Name}}{{$.Text}}{{end}}", "{{with .Empty}}x{{else with .List}}{{.}}{{else}}none{{end}}", "{{with $x := .Number}}{{$x}}{{end}}",
	"{{range .List}}{{.}},{{end}}", "{{range $i, $e := .List}}{{$i}}={{$e}};{{end}}", "{{range $e := .List}}{{$e}}{{end}}", "{{range .Empty}}x{{end}}", "{{range .Nothing}}x{{else}}none{{end}}",
	"{{range $k, $v := .Labels}}{{$k}}{{$v}}{{end}}", "{{range $k, $v := .Counts}}{{$k}}{{$v}}{{end}}", "{{range 3}}{{.}}{{end}}", "{{range $i := .Port | len}}{{end}}", "{{range $i, $e := 3}}{{$i}}{{end}}",
	"{{range .Any}}{{.}} {{end}}", "{{range $i, $e := .List}}{{if eq $i 1}}{{continue}}{{end}}{{$e}}{{end}}", "{{range .List}}{{.}}{{break}}{{end}}!", "{{range .Inner.List}}{{.}}{{end}}",
	"{{range .List}}{{range $.Inner.List}}{{if eq . 2}}{{break}}{{end}}{{.}}{{end}}{{.}}{{end}}", "{{range .Pointer.List}}x{{else}}none{{end}}", "{{range .Number}}{{.}}{{end}}", "{{range -1}}x{{else}}none{{end}}",
	"{{$x := 1}}{{$x = 2}}{{$x}}", "{{$x := 1}}{{if .Yes}}{{$x = 2}}{{$y := 3}}{{$y}}{{end}}{{$x}}", "{{$x := 1}}{{if .Yes}}{{$x := 5}}{{$x}}{{end}}{{$x}}", "{{$x := 0}}{{range $x = .List}}{{$x}}{{end}}{{$x}}",
	"{{$x := .Inner}}{{$x.Name}}{{$x.None}}", "{{$x}}", "{{$k := 0}}{{$v := 0}}{{range $k, $v = .Labels}}{{end}}{{$k}}{{$v}}", "{{$x := 1 | printf \"%d\"}}{{$x}}",
	`{{define "part"}}<{{.}}{{$}}>{{end}}{{template "part" .Number}}{{template "part"}}`, `{{block "b" .Inner}}{{.Name}}{{end}}`, `{{template "none" .}}`, `{{define "loop"}}{{template "loop"}}{{end}}x{{template "loop"}}`,
	`{{$x := 1}}{{define "v"}}{{$x}}{{end}}`, `{{$x := 1}}{{define "v"}}{{$}}{{end}}{{template "v" 4}}`,
	"{{and .Yes .Number}}{{and .No .None}}{{or .No .Text}}{{or .Yes .None}}", "{{and}}", "{{.Yes | and .Number}}{{.No | or .Empty}}{{.No | and .Empty}}", "{{not .Yes}}{{not .Empty}}", "{{not}}", "{{not 1 2}}",
	"{{eq .Number 7}}{{eq .Number 1 2 7}}{{eq .Port 8080}}{{eq .Text \"x\"}}{{ne .Number 8}}", "{{eq .Number \"7\"}}", "{{eq .Number 7.0}}", "{{eq 1}}", "{{eq .Yes true}}{{ne .No true}}", "{{eq .List .List}}", "{{eq .Nothing nil}}",
	"{{eq .Nil nil}}", "{{eq .Number nil}}", "{{eq .Part 1.5}}", "{{eq 1i 1i}}", "{{eq .Inner.Name .Pointer.Name}}", "{{eq .Pointer .Pointer}}", "{{eq .Nothing 1}}", "{{eq .Labels nil}}",
	"{{lt .Number 8}}{{le .Number 7}}{{gt .Number 7}}{{ge .Number 8}}{{lt .Port 9000}}{{lt -1 .Port}}{{gt .Port -1}}{{lt \"a\" \"b\"}}{{lt 1.5 2.5}}", "{{lt .Number \"a\"}}", "{{lt .Yes .No}}", "{{lt 1}}", "{{lt .List .List}}",
	"{{len .List}}{{len .Text}}{{len .Labels}}", "{{len .Number}}", "{{len .Nil}}", "{{len .Nothing}}", "{{len}}",
	"{{index .List 1}}{{index .Labels \"a\"}}{{index .Labels \"none\"}}{{index .Deep \"in\" \"key\" 0}}{{index .Counts -1}}", "{{index .List 3}}", "{{index .List -1}}", "{{index .List \"x\"}}", "{{index .Labels 1}}", "{{index .Number 1}}",
	"{{index .List}}", "{{index}}", "{{index .Nothing 1}}", "{{index .List nil}}", "{{index .Text 0}}", "{{index .List .Port}}", "{{index .Any 2}}", "{{index .Labels nil}}", "{{index .Counts .Port}}",
	"{{slice .Text 1}}{{slice .Text 1 2}}{{slice .List 1 2}}{{slice .List}}", "{{slice .List 2 1}}", "{{slice .List 9}}", "{{slice .Text 0 1 1}}", "{{slice .List 0 1 2}}", "{{slice .Number 1}}", "{{slice .List 0 1 2 3}}", "{{slice .List 1 3 2}}",
	"{{print 1 2 \"a\" \"b\" 3}}{{println .Yes}}{{printf \"%d-%s-%v\" 1 \"x\" .List}}", "{{printf 1}}", "{{printf}}", "{{printf \"%d\" \"x\"}}", "{{html .Text}}{{js .Text}}{{urlquery .Text}}", "{{.Text | html | printf \"%q\"}}",
	"{{own .Text 2}}", "{{.Number | own 1}}", "{{own}}", "{{faulty}}", "{{unknown}}",
	"{{ne\n.None}}", "{{.Number | not\n.None}}", "{{len}}", "{{lt 1}}", "{{ge\n1 2 .None}}", "{{eq\n.None}}",
	"{{1}}{{-1}}{{0x10}}{{1e3}}{{1.5}}{{'a'}}{{0x1p4}}{{1i}}{{true}}{{`raw`}}", "{{0x1e}}", "{{99999999999999999999}}", "{{9223372036854775808}}", "{{nil}}", "{{print nil}}", "{{1 2}}", "{{.Text 1}}", "{{1 | .Text}}", "{{\"x\" | 1}}", "{{'e'}}",
	"{{(.Inner).Name}}{{(index .List 0) | print}}", "{{(.Nothing).Name}}", "{{(print .Text).Name}}", "{{print (len .List) (not .Yes)}}", "{{print len}}", "a {{- .Number -}} b", "{{/* c */}}x", "{{/* c */ -}} x",
	"{{if}}", "{{end}}", "{{range .List}}", "{{.}", "{{break}}", "{{", "{{.Text}}{{.None}}", "{{with .Inner}}{{.Text}}{{end}}", "{{range .List}}{{.Name}}{{end}}", "{{$.Inner.Name}}", "{{range $i, $e := .Any}}{{$i}}{{end}}{{len (slice .Any 1 2)}}",
}

func both(t testing.TB, text string, value any) {
	t.Helper()
	own := func(args ...any) (any, error) {
		if len(args) == 0 {
			return nil, wrong(0, "1")
		}
		return len(args), nil
	}
	faulty := func(...any) (any, error) { return nil, errTypes }
	var want strings.Builder
	reference, wantErr := template.New("t").Option("missingkey=error").Funcs(template.FuncMap{"own": own, "faulty": faulty}).Parse(text)
	parsed, err := Parse("t", text, Functions{"own": own, "faulty": faulty})
	if wantErr != nil || err != nil {
		if wantErr == nil || err == nil || err.Error() != wantErr.Error() {
			t.Errorf("%q:\n%v, want\n%v", text, err, wantErr)
		}
		return
	}
	var got strings.Builder
	wantErr, err = reference.Execute(&want, value), parsed.Execute(&got, value)
	if (wantErr == nil) != (err == nil) || got.String() != want.String() {
		t.Errorf("%q:\n%q, %v, want\n%q, %v", text, got.String(), err, want.String(), wantErr)
	}
	if err != nil && wantErr != nil {
		if place, wantPlace := placeOf(err), placeOf(wantErr); place != wantPlace {
			t.Errorf("%q: an error at %s, want %s: %v", text, place, wantPlace, err)
		}
	}
}

// placeOf returns the beginning of an error, which names the template and the line.
func placeOf(err error) string {
	place, _, _ := strings.Cut(err.Error(), ": executing ")
	if at := strings.LastIndex(place, ":"); at > 0 {
		place = place[:at] // without the column: which of two operands is at fault differs
	}
	return place
}

// What a template makes is what text/template makes of it, and where that fails this fails at the same line.
func TestTextTemplateAgrees(t *testing.T) {
	for _, text := range texts {
		if strings.Contains(text, "loop") {
			continue // text/template goes deeper
		}
		both(t, text, sample())
	}
}

func TestATemplateThatCallsItselfEnds(t *testing.T) {
	parsed, err := Parse("t", `{{define "loop"}}{{template "loop"}}{{end}}{{template "loop"}}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := parsed.Execute(new(strings.Builder), nil); err == nil || !strings.Contains(err.Error(), "more than 1000 deep") {
		t.Errorf("%v, want that it is too deep", err)
	}
}

// There are no methods: what text/template would call is an error that names it.
func TestNoMethods(t *testing.T) {
	parsed, err := Parse("t", "{{.String}}", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := parsed.Execute(new(strings.Builder), new(strings.Builder)); err == nil || !strings.Contains(err.Error(), "can't evaluate field String") {
		t.Errorf("%v, want that there is no String", err)
	}
}

func FuzzTextTemplateAgrees(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, endless := range []string{"template", "block", "call", "range", "printf"} { // calls without an end, functions as values, long numbers
			if strings.Contains(text, endless) {
				return
			}
		}
		both(t, text, sample())
	})
}

// A further text has the definitions of the one before, and its own go before them.
func TestAlso(t *testing.T) {
	first, err := Parse("parts", `{{define "a"}}first{{end}}{{define "b"}}{{shout .}}{{end}}`, Functions{"shout": func(args ...any) (any, error) { return "LOUD", nil }})
	if err != nil {
		t.Fatal(err)
	}
	first.Compute(func(value any, name string) (any, bool) { return "computed " + name, name == "Up" })
	for text, want := range map[string]string{
		`{{template "a"}} {{template "b"}} {{shout}}`: "first LOUD LOUD",
		`{{define "a"}}own{{end}}{{template "a"}}`:    "own",
		`{{define "a"}} {{end}}{{template "a"}}`:      "first", // as in text/template
		`{{not false}} {{ne 1 2}}`:                    "true true",
		`{{.Up}} {{.Down}}`:                           "computed Up field",
		`{{with $}}{{$.Up}}{{end}} {{.Down.Up}}`:      "computed Up computed Up",
		``:                                            "",
	} {
		also, err := first.Also("main", text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var out strings.Builder
		err = also.Execute(&out, map[string]any{"Down": "field"})
		if err != nil || out.String() != want {
			t.Errorf("%s: %q, %v; want %q", text, out.String(), err, want)
		}
	}
	if _, err := first.Also("main", "{{if}}"); err == nil || !strings.Contains(err.Error(), "template: main:1") {
		t.Errorf("%v, want the place in main", err)
	}
}
