package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// World is discovery with a directory of configuration, backends inside the test, and Envoys that discovery configures
// without an agent: for tests of the translation.
type World struct {
	Lab
	T         *testing.T
	Config    string     // directory that discovery serves
	Env       []string   // of Envoys
	Discovery *Discovery // shadows the function of the lab that starts it
	API       string     // of ADS, "DELTA_GRPC"; "GRPC" where it is ""
	Domain    string     // DNS domain of the cluster of Envoys; "cluster.local" where it is ""

	judge     func(text []byte) error
	addresses string
	next      int
}

// NewWorld starts discovery with these flags. judge returns the faults of a file of objects: it is called before
// discovery can read the file, since a test with a refused file would prove nothing. When the test ends it is an error
// if an Envoy has rejected a response of discovery.
func NewWorld(t *testing.T, judge func(text []byte) error, flags ...string) *World {
	t.Helper()
	dir := t.TempDir()
	w := &World{Lab: New(dir), T: t, Config: filepath.Join(dir, "config"), judge: judge, addresses: Addresses()}
	w.Check(os.MkdirAll(w.Config, 0o755))
	var err error
	w.Discovery, err = w.Lab.Discovery(w.Config, flags...)
	w.Check(err)
	t.Cleanup(func() {
		w.Discovery.Stop(StopLimit)
		log := w.Discovery.Log()
		if strings.Contains(log, "response refused") || strings.Contains(log, "proxy refuses a part") {
			t.Errorf("an Envoy refused what discovery sent:\n%s", log)
		}
	})
	return w
}

// Check ends the test with an error, if there is one.
func (w *World) Check(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// Address returns a loopback address that no other caller has.
func (w *World) Address() string {
	w.next++
	return fmt.Sprintf("%s%d", w.addresses, w.next)
}

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
