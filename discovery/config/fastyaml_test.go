package config

import (
	"math/rand/v2"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// seen holds the fields of a node that the package reads.
type seen struct {
	kind       yaml.Kind
	value, tag string
	style      yaml.Style
	line       int
	depth      int
}

func look(n *yaml.Node, depth int, out []seen) []seen {
	out = append(out, seen{n.Kind, n.Value, n.ShortTag(), n.Style, n.Line, depth})
	for _, child := range n.Content {
		out = look(child, depth+1, out)
	}
	return out
}

// fastYAMLAgrees reads data on both paths, and reports whether the fast one accepts it.
func fastYAMLAgrees(t *testing.T, memory *nodes, data string) bool {
	t.Helper()
	memory.used = 0
	root, ok := readFastYAML(data, memory)
	if !ok {
		return false
	}
	roots, fault := anyDocuments([]byte(data))
	if fault != nil || len(roots) != 1 {
		t.Fatalf("taken, though there are %d documents with %v:\n%q", len(roots), fault, data)
	}
	got, want := look(root, 0, nil), look(roots[0], 0, nil)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("node %d of\n%q\nis %+v\nwant %+v", i, data, got[min(i, len(got)-1):], want[min(i, len(want)-1):])
		}
	}
	return true
}

func TestPlain(t *testing.T) {
	var memory nodes
	for _, d := range Split(services(2)) {
		if !fastYAMLAgrees(t, &memory, string(d.Data)) {
			t.Errorf("takes the long way:\n%s", d.Data)
		}
	}
	for _, data := range []string{
		"a: b", "---\na: b\n", "# c\n---\n# d\na: b # e\n\n# f\nc:\n  # g\n  d: e\n# h", "a:\n- b\n- c: d\n  e: f\n-   g: h\n    i: j\nk: l", "a:\n  - b\n  - c\n",
		"a:\nb: c\nd:", "a: 'b # c'\nd: \"e: f\" # g\n", "- a\n- b: c", "a: b:c\nd: -e\nf: g#h\ni: 10.0.0.0/8\n", "a: http://b\n", "a: ''\nb: \"\"", "a.b/c: d",
		"a: []\nb: {}\nc: [ ] # d\ne: { }", "a: [b]", "a: {b: c}", "a: [b, c,d]\ne: { f: g , h: 'i, ]' }", "a:\n- {b: [{c: d}, \"e\"], f: {}} # g\n- [h, [i]]\nj: k",
		"hosts: [a.b, '*']\nhttp: [{route: [{destination: {host: a.b, port: {number: 80}}, weight: 20}]}]", "a: b]", "a: [b:c, -d, http://e/f, 10.0.0.0/8, 1s]", "a: {b.c/d: e-f}",
	} {
		if !fastYAMLAgrees(t, &memory, data) {
			t.Errorf("takes the long way: %q", data)
		}
	}
	for _, data := range []string{ // which need the YAML package, or are wrong
		"", "a", "---", "--- a: b", "...", "a: b\n---\nc: d", "a: b\n...\n", "%YAML 1.2\n---\na: b", "a: &b c", "a: *b", "a: !c d", "a: |\n  b", "a: >\n  b", "? a\n: b",
		"a: [b", "a: {b: c", "a: {b}", "a: {b: }", "a: {b: , c: d}", "a: {b:c}", "a: [b: c]", "a: [b,]", "a: [,]", "a: {b: c,}", "a: {'b': c}", "a: {b : c}", "a: [b]: c",
		"a: [b] c", "a: [b]# c", "a: [b #c]", "a: [b\n  , c]", "a: [b]\n  c", "[a]", "{a: b}", "{a: b}: c", "- {a: b}: c", "a: [&b c]", "a: [*b]", "a: [!c d]", "a: [b?]", "a: [- b]", "a: [-]",
		"a: [''b]", "a: ['b''c']", `a: ["b\"c"]`, "a: ['b]", "a: {<<: b}", "a: {? b: c}", "a: {b: c: d}", "a: [[[b]]", "a: [}", "a: {]", "a: [b}", "a: [: b]", "a: {: b}", "a: {b: c d: e}",
		"a: ['b' 'c']", "a: [[] []]", "a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), "a: b\n  c", "a: b\n c: d", "  a: b", "a:\n    b: c\n  d: e", "a: b: c", "a: 'b''c'", `a: "b\"c"`, "a: 'b'c", "a: 'b'#c", "a: 'b", "<<: a",
		"a : b", "\"a\": b", "a:\tb", "a: b\r\nc: d", "a: é", "- - a", "-\n  a: b", "a: b\n- c", "- a\nb: c", "a:\n- b\n  c", "@a: b", "a: `b", "a: ]", "a:\n  b", "---a: b", "...a: b",
	} {
		if fastYAMLAgrees(t, &memory, data) {
			t.Errorf("is taken: %q", data)
		}
	}
}

// Documents of random pieces of YAML: a document that is accepted is read as the YAML package reads it.
func TestPlainAtRandom(t *testing.T) {
	pieces := []string{
		"a: ", "b: ", "c:", "d", "- ", "- ", "\n", "\n", "\n  ", "\n  ", "\n    ", " ", "#", " # ", "'", `"`, ":", "---", "...", "-", "?", "&e", "*e", "{", "}", "[", "]",
		",", "|", ">", "!", "%", "<<", "@", "=", "~", "1", ".", "\\",
	}
	random := rand.New(rand.NewPCG(1, 2))
	var memory nodes
	taken := 0
	for range 30_000 {
		var b strings.Builder
		for range random.IntN(16) {
			piece := pieces[random.IntN(len(pieces))]
			if random.IntN(3) > 0 {
				piece = pieces[random.IntN(12)]
			}
			b.WriteString(piece)
		}
		for _, d := range Split([]byte(b.String())) {
			if fastYAMLAgrees(t, &memory, string(d.Data)) {
				taken++
			}
		}
	}
	if taken < 1000 {
		t.Errorf("%d documents are taken: too few to show anything", taken)
	}
}

// Flows of random values, half of them with a character that is doubled or missing: likewise.
func TestFlowAtRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var value func(depth int) string
	value = func(depth int) string {
		var of []string
		for range random.IntN(4) * max(0, 4-depth) / 4 {
			of = append(of, strings.Repeat(" ", random.IntN(3)/2)+value(depth+1))
		}
		switch kind := random.IntN(7); {
		case kind == 0 || depth == 0 && kind < 4:
			return "[" + strings.Join(of, ",") + "]"
		case kind == 1 || depth == 0:
			for i := range of {
				of[i] = string(rune('a'+i)) + ": " + of[i]
			}
			return "{" + strings.Join(of, ", ") + "}"
		}
		return []string{"b", "c d", "'e, f'", `"g: h"`, "1", "-i:j", "k.l/m", "true"}[random.IntN(8)]
	}
	var memory nodes
	whole, taken := 0, 0
	for i := range 20_000 {
		data := "a: " + value(0)
		if at := random.IntN(len(data)); i%2 == 0 {
			if fastYAMLAgrees(t, &memory, data) {
				whole++
			}
		} else if fastYAMLAgrees(t, &memory, data[:at]+strings.Repeat(data[at:at+1], 2*random.IntN(2))+data[at+1:]) {
			taken++
		}
	}
	if whole != 10_000 || taken < 1000 {
		t.Errorf("%d of 10,000 flows are taken, and %d with a fault: want all, and some", whole, taken)
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("---\na: b # c\nd:\n- e: 'f'\n  g: \"h\"\n- i\n")
	f.Add("a:\n  b: c\n  # d\n  e:\n  - f\ng: h: i\n")
	f.Add("a: {b: [c, 'd'], e: {}} # f\ng:\n- [h, {i: j}]\n")
	var memory nodes
	f.Fuzz(func(t *testing.T, data string) {
		for _, d := range Split([]byte(data)) {
			fastYAMLAgrees(t, &memory, string(d.Data))
		}
	})
}
