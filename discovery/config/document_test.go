package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplit(t *testing.T) {
	type part struct {
		line int
		text string
	}
	for name, test := range map[string]struct {
		data string
		want []part
	}{
		"nothing":                      {"", nil},
		"one document":                 {"a: 1\nb: 2", []part{{1, "a: 1\nb: 2"}}},
		"one that begins with ---":     {"---\na: 1\n", []part{{1, "---\na: 1\n"}}},
		"two":                          {"a: 1\n---\nb: 2\n", []part{{1, "a: 1\n"}, {2, "---\nb: 2\n"}}},
		"empty ones":                   {"---\n---\n---\n", []part{{1, "---\n"}, {2, "---\n"}, {3, "---\n"}}},
		"a comment or a value follows": {"a: 1\n--- # b\nb\n--- c\n", []part{{1, "a: 1\n"}, {2, "--- # b\nb\n"}, {4, "--- c\n"}}},
		"no markers":                   {"a: ---\n --- b\n---c: 1\n", []part{{1, "a: ---\n --- b\n---c: 1\n"}}},
		"comments and directives belong to what follows": {
			"# a\n%YAML 1.2\n---\nb: 1\n...\n# c\n\n%YAML 1.2\n---\nd: 1\n",
			[]part{{1, "# a\n%YAML 1.2\n---\nb: 1\n...\n"}, {6, "# c\n\n%YAML 1.2\n---\nd: 1\n"}},
		},
		"a text cannot hold a marker": {"a: |\n  b\n---\nc: 1", []part{{1, "a: |\n  b\n"}, {3, "---\nc: 1"}}},
		"Windows' line ends":          {"a: 1\r\n---\r\nb: 2\r\n", []part{{1, "a: 1\r\n"}, {2, "---\r\nb: 2\r\n"}}},
		"the YAML package's lines":    {"a: 1\rb: 2\u0085# c\u2028# d\n---\ne: 1", []part{{1, "a: 1\rb: 2\u0085# c\u2028# d\n"}, {5, "---\ne: 1"}}},
		"UTF-16 stays whole":          {"\xff\xfea\x00\n\x00", []part{{1, "\xff\xfea\x00\n\x00"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []part
			for _, d := range Split([]byte(test.data)) {
				got = append(got, part{d.Line, string(d.Data)})
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(part{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A document that is malformed in any way is refused alone: the objects before and after it are read, each with its
// line.
func TestDecodeOneBrokenDocument(t *testing.T) {
	good := func(name string) string { return head + "metadata: {name: " + name + "}\nspec: {host: x}\n" }
	for name, broken := range map[string]string{
		"an open bracket":     "a: [\n",
		"an open quote":       "a: \"b\n",
		"a tab":               "a:\n\tb: c\n",
		"an unknown anchor":   "a: *b\n",
		"a wrong value":       head + "metadata: {name: b}\nspec: {host: a..b}\n",
		"no object":           "- a\n",
		"an object of no one": "a: b\n",
		"bytes of no text":    "a: \xff\xfe\n",
	} {
		t.Run(name, func(t *testing.T) {
			objects, problems := Decode("f", []byte(good("a")+"---\n"+broken+"---\n"+good("c")))
			if len(objects) != 2 || objects[0].Name != "a" || objects[1].Name != "c" {
				t.Fatalf("objects are %v, want a and c; problems: %v", objects, problems)
			}
			if want := strings.Count(good("a")+broken, "\n") + 3; objects[1].Origin.Line != want {
				t.Errorf("c is at line %d, want %d", objects[1].Origin.Line, want)
			}
			if !HasErrors(problems) {
				t.Errorf("problems are %v, want an error", problems)
			}
		})
	}
}

// Read returns the key that a refused object was meant to have, as far as it can be read.
func TestReadKey(t *testing.T) {
	for name, test := range map[string]struct{ data, want string }{
		"a sound one":      {head + "metadata: {name: a}\nspec: {host: a}", "DestinationRule/default/a"},
		"a wrong value":    {head + "metadata: {name: a, namespace: b}\nspec: {host: 5}", "DestinationRule/b/a"},
		"a wrong name":     {head + "metadata: {name: A}\nspec: {host: a}", ""},
		"no YAML":          {head + "metadata: {name: a}\nspec: [", ""},
		"not served":       {"kind: A\napiVersion: b/c\nmetadata: {name: a}", ""},
		"a wrong envelope": {head + "metadata: {name: a}\nspec: {host: a}\nspecs: {}", "DestinationRule/default/a"},
	} {
		items := Read([]byte(test.data))
		if len(items) != 1 || items[0].Key != test.want {
			t.Errorf("%s: %+v, want the key %q", name, items, test.want)
		}
	}
}

// The memory for a document depends on its size and its faults: both are bounded, and parts that are not read are
// reported.
func TestDocumentsAreBounded(t *testing.T) {
	list := func(items int) string {
		return "apiVersion: v1\nkind: List\nitems: [" + strings.Repeat("a,", items) + "]"
	}
	for name, test := range map[string]struct {
		text, want string
		most       int
	}{
		"faults": {list(maxProblems), "what follows is not read", maxProblems + 5},
		"size":   {list(maxDocument / 2), "has 8 MiB, want at most 8 in a document", 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := Decode("f", []byte(test.text))
			told := slices.ContainsFunc(problems, func(p Problem) bool { return strings.Contains(p.Message, test.want) && p.Severity == Error })
			if !told || len(problems) > test.most {
				t.Errorf("%d problems, want at most %d and one with %q", len(problems), test.most, test.want)
			}
		})
	}
}
