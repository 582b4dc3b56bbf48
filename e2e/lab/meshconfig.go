package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// copyConfig copies the example's configuration, moved to the test's addresses.
func (m *Mesh) copyConfig() {
	m.Check(os.MkdirAll(m.Config, 0o755))
	files, err := filepath.Glob(Path("examples/bookinfo/config/*.yaml"))
	m.Check(err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		m.Check(err)
		m.Write(filepath.Base(file), strings.ReplaceAll(string(data), "127.0.0.", m.Addresses))
	}
}

// Edit replaces text in a file of the configuration, as an editor does: a new file renamed over the old one.
func (m *Mesh) Edit(file, old, new string) {
	m.T.Helper()
	text, err := os.ReadFile(filepath.Join(m.Config, file))
	m.Check(err)
	if strings.Count(string(text), old) != 1 {
		m.T.Fatalf("%s: has %q %d times, want once", file, old, strings.Count(string(text), old))
	}
	m.Write(file, strings.Replace(string(text), old, new, 1))
}

// Weights sets how much of the traffic to reviews goes to v1 and v2.
func (m *Mesh) Weights(v1, v2 int) {
	m.T.Helper()
	text, err := os.ReadFile(filepath.Join(m.Config, "reviews.yaml"))
	m.Check(err)
	values := []int{v1, v2}
	m.Write("reviews.yaml", weight.ReplaceAllStringFunc(string(text), func(string) string {
		value := values[0]
		values = values[1:]
		return fmt.Sprintf("weight: %d", value)
	}))
}

var weight = regexp.MustCompile(`weight: \d+`)

// Write replaces a file of the configuration, as an editor does: a new file renamed over the old one.
func (m *Mesh) Write(file, text string) {
	m.T.Helper()
	path := filepath.Join(m.Config, file)
	m.Check(os.WriteFile(path+"~", []byte(text), 0o644))
	m.Check(os.Rename(path+"~", path))
}
