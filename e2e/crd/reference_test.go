package crd_test

import (
	"bufio"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/e2e/crd"
	"github.com/pilotlight/pilotlight/internal/golden"
)

var more = flag.String("samples", "", "a directory with more files of YAML to judge, such as Istio's own samples")

// verdict is what two judges say of one document.
type verdict struct {
	ours   []string // errors of discovery's validator
	theirs []string // faults that the API server would find
}

func judge(reference *crd.Reference, document []byte) (verdict, bool) {
	theirs, known := reference.Judge(document)
	v := verdict{theirs: theirs}
	objects, problems := config.Decode("", document)
	for _, p := range problems {
		if p.Severity == config.Error {
			v.ours = append(v.ours, p.Path+": "+p.Message)
		}
	}
	served := len(objects) > 0 || len(v.ours) > 0 || slices.ContainsFunc(problems, func(p config.Problem) bool {
		return !strings.Contains(p.Message, "is not supported, ignored") || p.Path != ""
	})
	return v, known && served
}

func (v verdict) String() string {
	word := func(faults []string) string {
		if len(faults) == 0 {
			return "accepts"
		}
		return "refuses"
	}
	return fmt.Sprintf("discovery %s, the API server %s", word(v.ours), word(v.theirs))
}

func newReference(t *testing.T) *crd.Reference {
	t.Helper()
	reference, err := crd.New()
	if err != nil {
		t.Fatal(err)
	}
	return reference
}

// Of objects with a fault each, discovery refuses every one, and so does the API server unless it cannot know: the
// golden file tells which.
func TestBadObjects(t *testing.T) {
	reference := newReference(t)
	file, err := os.Open("testdata/bad.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out strings.Builder
	kind, used := "", map[string]bool{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, spec, isObject := strings.Cut(lines.Text(), ": ")
		switch {
		case strings.HasPrefix(name, "#") || name == "":
		case !isObject:
			kind = name
		default:
			v, known := judge(reference, []byte(fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", kind, name, spec)))
			if !known {
				t.Errorf("%s %s: the API server has no such kind", kind, name)
			}
			if len(v.ours) == 0 || !v.known(used) {
				t.Errorf("%s %s: %v: ours %q, theirs %q", kind, name, v, v.ours, v.theirs)
			}
			fmt.Fprintf(&out, "%s %s: %v\n", kind, name, v)
		}
	}
	golden.Text(t, out.String())
	for _, d := range divergences() {
		if !used[d.reason] {
			t.Errorf("no object here shows that %s", d.reason)
		}
	}
}

// Every file that the project shows or tests with is accepted by both.
func TestSamples(t *testing.T) {
	reference := newReference(t)
	for _, pattern := range []string{
		"../../examples/*/config/*.yaml", "../../discovery/xds/testdata/scenario/*.yaml",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files (%v)", pattern, err)
		}
		for _, file := range files {
			each(t, file, func(document []byte) {
				v, known := judge(reference, document)
				if !known || len(v.ours)+len(v.theirs) > 0 {
					t.Errorf("%s: %v\n%s%s\n%s", file, v, strings.Join(v.ours, "\n"), strings.Join(v.theirs, "\n"), document)
				}
			})
		}
	}
}

// For all files that -samples names, the two differ only where it is known why. Documents of other kinds are passed
// over.
func TestMoreSamples(t *testing.T) {
	if *more == "" {
		return // nothing was asked for
	}
	reference := newReference(t)
	count := map[string]int{}
	err := filepath.WalkDir(*more, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)) {
			return err
		}
		each(t, path, func(document []byte) {
			if v, known := judge(reference, document); known {
				count[v.String()]++
				if !v.known(map[string]bool{}) {
					t.Errorf("%s: %v: ours %q, theirs %q", path, v, v.ours, v.theirs)
				}
			}
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v", count)
}

func each(t *testing.T, file string, do func(document []byte)) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	documents, err := crd.Documents(data)
	if err != nil && *more == "" {
		t.Fatalf("%s: %v", file, err)
	}
	for _, document := range documents {
		do(document)
	}
}

// known reports whether the two may differ so: discovery refuses alone, and it is known why for each of its errors.
func (v verdict) known(used map[string]bool) bool {
	if len(v.theirs) > 0 {
		return len(v.ours) > 0
	}
	for _, message := range v.ours {
		i := slices.IndexFunc(divergences(), func(d divergence) bool { return d.message.MatchString(message) })
		if i < 0 {
			return false
		}
		used[divergences()[i].reason] = true
	}
	return true
}

// Sound asks discovery and the API server: what either refuses is an error that says which.
func TestSound(t *testing.T) {
	object := func(spec string) []byte {
		return []byte("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: app}\nspec: " + spec)
	}
	const rest = "location: MESH_INTERNAL, resolution: STATIC, endpoints: [{address: 10.0.0.1}]}"
	for _, test := range []struct{ spec, want string }{
		{"{hosts: [app.test], ports: [{number: 80, name: http, protocol: HTTP}], " + rest, ""},
		{"{hosts: [app.test], ports: [{number: 0, name: http, protocol: HTTP}], " + rest, "discovery would not take this"},
		{"{hosts: [app.test], ports: [{number: '80', name: http, protocol: HTTP}], " + rest, "would not take this"},
	} {
		err := crd.Sound(object(test.spec))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.spec, err, test.want)
		}
	}
}
