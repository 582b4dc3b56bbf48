package file

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/watch"
)

// Policies in files that are not read are named; other files are not.
func TestPassedOver(t *testing.T) {
	const policy = "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: deny, namespace: ns}\nspec: {action: DENY, rules: [{}]}\n"
	for _, tt := range []struct {
		name, text string
		want       error
	}{
		{"d.YAML", policy, errName},
		{"d.Yml", policy, errName},
		{"d.JSON", `{"apiVersion": "security.istio.io/v1", "kind": "AuthorizationPolicy"}`, errName},
		{"deny", policy, errName},
		{"deny", "# a policy\n---\n" + policy, errName},
		{"deny", `{kind: AuthorizationPolicy, "apiVersion" : 'security.istio.io/v1'}`, errName},
		{".hidden/d.yaml", policy, errHidden},
		{".hidden/.d/e/d.json", policy, errHidden},
		{"d.yaml.bak", policy, nil},
		{"d.yaml~", policy, nil},
		{".d.yaml.swp", policy, nil},
		{".d.yaml", policy, nil},
		{"..data/d.yaml", policy, nil},
		{"..2026_11_30/d.yaml", policy, nil},
		{".git/d.yaml", policy, nil},
		{".hidden/.git/d.yaml", policy, nil},
		{".hidden/deny.txt", policy, nil},
		{"README", "Its apiVersion is that of security.istio.io/v1.", nil},
		{"deployment", "apiVersion: apps/v1\nkind: Deployment\n", nil},
		{"values.YAML", "istio.io/rev: x\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, tt.name)
			must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must(t, os.WriteFile(path, []byte(tt.text), 0o600))
			s := newState(0)
			look := func() (said []string) {
				l, err := s.scan(dir, watch.Changes{All: true}, time.Now())
				must(t, err)
				for _, p := range s.apply(l, time.Now()).problems {
					said = append(said, p.String())
				}
				return said
			}
			var want []string
			if tt.want != nil {
				want = []string{path + ": warning: " + tt.want.Error()}
			}
			if got := look(); !slices.Equal(got, want) {
				t.Errorf("problems %q, want %q", got, want)
			}
			if again := look(); len(again) > 0 || len(s.problems()) != len(want) || len(s.status().Lines()) > 0 {
				t.Errorf("said again: %q, all %v; status %v", again, s.problems(), s.status().Lines())
			}
			_, _, err := Paths{Objects: []string{dir}}.Read(nil)
			if err == nil || strings.Contains(err.Error(), "is not read") != (tt.want != nil) {
				t.Errorf("a directory with nothing else: %v", err)
			}
			must(t, os.WriteFile(filepath.Join(dir, "read.yaml"), []byte(strings.ReplaceAll(policy, "deny", "other")), 0o600))
			if objects, problems, err := (Paths{Objects: []string{dir}}).Read(nil); len(objects) != 1 || len(problems) != len(want) || err != nil {
				t.Errorf("with a file that is read: %d objects, %v, %v", len(objects), problems, err)
			}
			must(t, os.Remove(path))
			if look(); len(s.problems()) > 0 {
				t.Errorf("said of a file that is gone: %v", s.problems())
			}
		})
	}
}

// A directory of many such files costs a bounded look.
func TestManyArePassedOver(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, ".hidden"), 0o755))
	for i := range maxPassed {
		must(t, os.WriteFile(filepath.Join(dir, ".hidden", strings.Repeat("x", i%7+1)+time.Duration(i).String()+".yaml"), []byte("apiVersion: networking.istio.io/v1"), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(dir, "a.yaml"), nil, 0o600))
	files, err := Read(dir)
	if err != nil || len(files) != maxPassed {
		t.Errorf("%d files, %v, want one that is read and %d that are named", len(files), err, maxPassed-1)
	}
}
