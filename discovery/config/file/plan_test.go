package file

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// rule is a DestinationRule on one line.
func rule(name, host string) string {
	return "{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: " + name + "}, spec: {host: " + host + "}}\n"
}

// TestPlan reads directories one after another and tells what each one changes.
func TestPlan(t *testing.T) {
	const a, b = "DestinationRule/default/a", "DestinationRule/default/b"
	type step struct {
		files    []File
		changed  map[string]string // the origin of each group, "" where it is deleted
		problems []string
	}
	file := func(name, text string) File { return File{Name: name, Data: []byte(text)} }
	good := file("1.yaml", rule("a", "x"))
	broken := file("1.yaml", rule("a", "x")+"---\n"+rule("b", "a..b"))
	const fault = `1.yaml:3: error: DestinationRule default/b: spec.host: is "a..b", want DNS labels of letters, digits and '-' between dots`

	for name, steps := range map[string][]step{
		"nothing": {{}},
		"only what changed": {
			{files: []File{good, file("2.yaml", rule("b", "y"))}, changed: map[string]string{a: "1.yaml:1", b: "2.yaml:1"}},
			{files: []File{good, file("2.yaml", rule("b", "y"))}},
			{files: []File{good, file("2.yaml", rule("b", "z"))}, changed: map[string]string{b: "2.yaml:1"}},
			{files: []File{good, file("2.yaml", "# moved\n"+rule("b", "z"))}, changed: map[string]string{b: "2.yaml:2"}},
			{files: []File{file("1.yaml", rule("a", " 'x'")), file("2.yaml", "# moved\n"+rule("b", "z"))}},
		},
		"a deleted file": {
			{files: []File{good}, changed: map[string]string{a: "1.yaml:1"}},
			{changed: map[string]string{a: ""}},
		},
		"a renamed file": {
			{files: []File{good}, changed: map[string]string{a: "1.yaml:1"}},
			{files: []File{file("9.yaml", rule("a", "x"))}, changed: map[string]string{a: "9.yaml:1"}},
		},
		"a file that breaks is refused whole, and its last good objects stay": {
			{files: []File{good}, changed: map[string]string{a: "1.yaml:1"}},
			{files: []File{broken}, problems: []string{fault}},
			{files: []File{broken}, problems: []string{fault}},
			{files: []File{good}},
		},
		"a file that is broken from the start has no last good objects": {
			{files: []File{broken}, problems: []string{fault}},
			{files: []File{good}, changed: map[string]string{a: "1.yaml:1"}},
		},
		"a broken file that is deleted takes its last good objects with it": {
			{files: []File{good}, changed: map[string]string{a: "1.yaml:1"}},
			{files: []File{broken}, problems: []string{fault}},
			{changed: map[string]string{a: ""}},
		},
		"a file that cannot be read": {
			{files: []File{good}, changed: map[string]string{a: "1.yaml:1"}},
			{
				files:    []File{{Name: "1.yaml", Err: errors.New("permission denied")}},
				problems: []string{"1.yaml: error: permission denied"},
			},
			{files: []File{good}},
		},
		"the first file by name keeps an object, whatever the order": {
			{
				files:    []File{file("2.yaml", rule("a", "y")+"---\n"+rule("b", "y")), good},
				changed:  map[string]string{a: "1.yaml:1", b: "2.yaml:3"},
				problems: []string{"2.yaml:1: error: DestinationRule default/a: is declared already at 1.yaml:1"},
			},
			{
				files:   []File{file("2.yaml", rule("a", "y")+"---\n"+rule("b", "y"))},
				changed: map[string]string{a: "2.yaml:1"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var last state
			for i, step := range steps {
				next, groups, found := plan(last, step.files)
				last = next
				changed := map[string]string{}
				for key, g := range groups {
					changed[key] = origin(g)
				}
				var problems []string
				for _, p := range found {
					problems = append(problems, p.String())
				}
				if step.changed == nil {
					step.changed = map[string]string{}
				}
				if diff := cmp.Diff(step.changed, changed); diff != "" {
					t.Errorf("step %d changed (-want +got):\n%s", i, diff)
				}
				if diff := cmp.Diff(step.problems, problems); diff != "" {
					t.Errorf("step %d problems (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

func origin(g model.Group) string {
	if g.Empty() {
		return ""
	}
	return g.Objects[0].Origin.String()
}

func TestPlanSharesWhatDidNotChange(t *testing.T) {
	files := []File{{Name: "1.yaml", Data: []byte(rule("a", "x"))}}
	first, _, _ := plan(state{}, files)
	second, _, _ := plan(first, files)
	if !slices.Equal(slices.Collect(maps.Values(first.objects)), slices.Collect(maps.Values(second.objects))) {
		t.Error("a file of the same bytes was decoded again")
	}
}
