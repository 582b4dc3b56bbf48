package inject_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pilotlight/pilotlight/discovery/inject"
)

// For any object there is an answer: the object is unchanged or has one sidecar more, and a second injection changes
// nothing. Its patch is made without an error.
func FuzzPod(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(`{metadata: 3, spec: {containers: [{name: a, lifecycle: 7, livenessProbe: {httpGet: []}}], securityContext: [], initContainers: {}}}`)
	f.Add(`{metadata: {labels: [], annotations: 4}, spec: {containers: [{name: a, ports: [7], livenessProbe: {httpGet: {port: {}}}}], volumes: 9}}`)
	c, err := inject.ReadConfig("")
	if err != nil {
		f.Fatal(err)
	}
	i, err := inject.New(c, inject.DefaultTemplate)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, _, _ = i.Manifest([]byte(text), "default", nil)
		var given map[string]any
		if yaml.Unmarshal([]byte(text), &given) != nil {
			return
		}
		r, err := i.Pod(inject.Namespace{Name: "shop"}, given, nil)
		if err != nil {
			return
		}
		if _, err := inject.Patch(given, r.Pod); err != nil {
			t.Fatal(err)
		}
		again, err := i.Pod(inject.Namespace{Name: "shop"}, r.Pod, nil)
		if err != nil || again.Skipped == "" || !reflect.DeepEqual(again.Pod, r.Pod) {
			t.Fatalf("the second time: %q, %v", again.Skipped, err)
		}
	})
}

// Every part of a Pod may be of another type: there is an answer and no panic, and the sidecar is injected once.
func TestEveryPartMayBeWrong(t *testing.T) {
	i := injector(t, "")
	for _, path := range []string{"testdata/pod.yaml", "testdata/statefulset.yaml", "testdata/deployment.yaml"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		given := parse(t, string(text))
		if template, ok := given["spec"].(map[string]any)["template"].(map[string]any); ok {
			given = template
		}
		tried, injected := 0, 0
		var edit func(at any, set func(any))
		edit = func(at any, set func(any)) {
			for _, other := range []any{nil, int64(-7), "x", []any{nil, "x", map[string]any{}}, map[string]any{"name": "x"}} {
				set(other)
				tried++
				r, err := i.Pod(inject.Namespace{Name: "shop"}, given, nil)
				if err != nil || r.Skipped != "" {
					continue
				}
				injected++
				if _, err := inject.Patch(given, r.Pod); err != nil {
					t.Fatal(err)
				}
				if again, err := i.Pod(inject.Namespace{Name: "shop"}, r.Pod, nil); err != nil || again.Skipped == "" || !reflect.DeepEqual(again.Pod, r.Pod) {
					t.Errorf("%s with %v: the second time: %q, %v", path, other, again.Skipped, err)
				}
			}
			set(at)
			switch at := at.(type) {
			case map[string]any:
				for key, value := range at {
					edit(value, func(v any) { at[key] = v })
				}
			case []any:
				for n, value := range at {
					edit(value, func(v any) { at[n] = v })
				}
			}
		}
		edit(given, func(v any) {
			if o, ok := v.(map[string]any); ok {
				given = o
			}
		})
		if tried < 100 || injected < 40 {
			t.Errorf("%s: %d of %d edits were injected", path, injected, tried)
		}
	}
}
