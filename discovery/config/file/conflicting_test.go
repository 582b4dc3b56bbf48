package file

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	security "istio.io/api/security/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A second policy of a name is sent with the first, in another file or document, sound or not, until it is gone.
func TestSecondPoliciesOfAName(t *testing.T) {
	const key = "AuthorizationPolicy/default/a"
	policy := func(spec string) string {
		return "{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {name: a}, spec: {" + spec + "}}\n"
	}
	deny := func(path string) string {
		return policy("action: DENY, rules: [{to: [{operation: {paths: [" + path + "]}}]}]")
	}
	const broken, unreadable = "/x, [y]", "a: [\n"
	type step struct {
		files   []File
		want    string // the paths of the objects of the key; "closed" before those of a closed form
		problem string // a part of the new ones
	}
	for name, steps := range map[string][]step{
		"in two files": {
			{[]File{file("1.yaml", deny("/a")), file("2.yaml", deny("/b"))}, "/a /b", "2.yaml:1: error: AuthorizationPolicy default/a: is declared already at 1.yaml:1: the rules of both count"},
			{[]File{file("1.yaml", deny("/a")), file("2.yaml", deny("/c"))}, "/a /c", ""},
			{[]File{file("1.yaml", deny("/a")), file("2.yaml", deny("/a"))}, "/a", "2.yaml:1: warning: AuthorizationPolicy default/a: is declared already at 1.yaml:1, and both are the same"},
			{[]File{file("1.yaml", deny("/a"))}, "/a", ""},
		},
		"in one": {
			{[]File{file("1.yaml", docs(deny("/a"), deny("/b"), deny("/c")))}, "/a /b /c", "1.yaml:5: error"},
			{[]File{file("1.yaml", "# moved\n"+docs(deny("/a"), deny("/b")))}, "/a /b", "1.yaml:4: error"},
			{[]File{file("1.yaml", deny("/b"))}, "/b", ""},
		},
		"a broken one in another file": {
			{[]File{file("1.yaml", deny("/a")), file("2.yaml", deny(broken))}, "/a closed/", "2.yaml:1: error"},
			{[]File{file("1.yaml", deny("/a")), file("2.yaml", deny("/b"))}, "/a /b", "is declared already"},
		},
		"a broken one in the same": {{[]File{file("1.yaml", docs(deny("/a"), deny(broken)))}, "/a closed/", "1.yaml:3: error"}},
		"a broken one before it":   {{[]File{file("1.yaml", deny(broken)), file("2.yaml", deny("/a"))}, "/a closed/", "1.yaml:1: error"}},
		"two broken ones": {
			{[]File{file("1.yaml", docs(deny(broken), deny("/b, [c]], methods: [GET")))}, "closed/ closed/", "1.yaml:3: error"},
		},
		"while a part cannot be read": {
			{[]File{file("1.yaml", docs(deny("/a"), deny("/b")))}, "/a /b", "1.yaml:3: error"},
			{[]File{file("1.yaml", docs(deny("/a"), unreadable))}, "/a /b", "1.yaml:3: error"},
			{[]File{file("1.yaml", deny("/a"))}, "/a", ""},
		},
		"one that breaks keeps its last good form": {
			{[]File{file("1.yaml", deny("/a"))}, "/a", ""},
			{[]File{file("2.yaml", deny(broken))}, "/a", "2.yaml:1: error"},
		},
		"an allowance": {
			{[]File{file("1.yaml", deny("/a")), file("2.yaml", policy("selector: {matchLabels: {b: c}}, rules: [{}]"))}, "/a  ", "this one allows nobody"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, sent := newState(0), model.Group{}
			for i, step := range steps {
				now := start0.Add(time.Duration(i) * time.Minute)
				out := s.apply(s.lookAt(step.files), now)
				if len(s.waiting) > 0 {
					again := s.apply(s.lookAt(step.files), now.Add(lossWait))
					out.problems = append(out.problems, again.problems...)
					if g, changed := again.groups[key]; changed {
						out.groups[key] = g
					}
				}
				if g, changed := out.groups[key]; changed {
					sent = g
				}
				var got []string
				for _, o := range sent.Objects {
					text := ""
					if o.Closed {
						text = "closed/"
					}
					for _, r := range o.Spec.(*security.AuthorizationPolicy).Rules {
						for _, to := range r.To {
							text += strings.Join(to.Operation.Paths, ",")
						}
					}
					got = append(got, text)
				}
				if diff := cmp.Diff(strings.TrimRight(step.want, " "), strings.TrimRight(strings.Join(got, " "), " ")); diff != "" {
					t.Errorf("step %d (-want +got):\n%s", i, diff)
				}
				if text := fmt.Sprint(out.problems); !strings.Contains(text, step.problem) || step.problem == "" && strings.Contains(text, "error") {
					t.Errorf("step %d: the problems are %s, want %q", i, text, step.problem)
				}
				if again := s.apply(s.lookAt(step.files), now.Add(2*lossWait)); len(again.groups) > 0 {
					t.Errorf("step %d: the same files change %v", i, again.groups)
				}
			}
		})
	}
}
