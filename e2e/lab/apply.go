package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Apply writes objects, given as kind and name and then as the spec's YAML, each into a file of its own.
func (w *World) Apply(objects ...string) {
	w.T.Helper()
	for i := 0; i+1 < len(objects); i += 2 {
		kind, name, _ := strings.Cut(objects[i], " ")
		w.write(fileOf(kind, name), objects[i:i+2])
	}
}

// ApplyAtOnce writes objects into one file, so that discovery takes them as one change.
func (w *World) ApplyAtOnce(file string, objects ...string) {
	w.T.Helper()
	w.write(file, objects)
}

// write replaces a file of the configuration, as an editor does: a new file renamed over the old one.
func (w *World) write(file string, objects []string) {
	w.T.Helper()
	text := documents(objects)
	if err := w.judge([]byte(text)); err != nil {
		w.T.Fatalf("%v\n%s", err, text)
	}
	path := filepath.Join(w.Config, file)
	w.Check(os.WriteFile(path+"~", []byte(text), 0o644))
	w.Check(os.Rename(path+"~", path))
}

// documents returns the YAML of objects. The specs have Go's indentation: the tabs in front of their lines are removed.
func documents(objects []string) string {
	var text strings.Builder
	for i := 0; i+1 < len(objects); i += 2 {
		kind, name, _ := strings.Cut(objects[i], " ")
		spec := strings.ReplaceAll(strings.Trim(objects[i+1], "\n\t "), "\n\t\t", "\n")
		group := "networking"
		if strings.HasSuffix(kind, "Authentication") || strings.HasSuffix(kind, "Policy") {
			group = "security"
		}
		fmt.Fprintf(&text, "---\napiVersion: %s.istio.io/v1\nkind: %s\nmetadata: {name: %s}\nspec:\n  %s\n",
			group, kind, name, strings.ReplaceAll(strings.ReplaceAll(spec, "\t", ""), "\n", "\n  "))
	}
	return text.String()
}

// fileOf returns the name of an object's file: "serviceentry-app.test.yaml".
func fileOf(kind, name string) string { return strings.ToLower(kind) + "-" + name + ".yaml" }

// Remove removes the file of an object that Apply has written.
func (w *World) Remove(kind, name string) {
	w.T.Helper()
	w.Check(os.Remove(filepath.Join(w.Config, fileOf(kind, name))))
}
