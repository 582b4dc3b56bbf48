package golden

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Updating reports whether files are to be rewritten.
func Updating() bool { return *update }

// Text compares text with the test's golden file, byte for byte.
func Text(t *testing.T, got string) {
	t.Helper()
	Document(t, file(t), got)
}

// Document compares text with a file that is published elsewhere, such as a page of docs.
func Document(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		write(t, path, []byte(got))
	}
	if diff := cmp.Diff(string(read(t, path)), got); diff != "" {
		t.Errorf("%s (-want +got, -update rewrites it):\n%s", path, diff)
	}
}

// JSON compares documents by their parsed values, since protojson's spacing varies from build to build. The file is
// kept indented, its keys sorted.
func JSON(t *testing.T, got []byte) {
	t.Helper()
	path := file(t)
	value := parse(t, "the document", got)
	if *update {
		write(t, path, indent(t, value))
	}
	if diff := cmp.Diff(parse(t, path, read(t, path)), value); diff != "" {
		t.Errorf("%s (-want +got, -update rewrites it):\n%s", path, diff)
	}
}

// file returns the path of a test's golden file; a subtest has its own.
func file(t *testing.T) string {
	name := strings.NewReplacer("/", "_", " ", "_").Replace(t.Name())
	return filepath.Join("testdata", name+".golden")
}

func parse(t *testing.T, what string, data []byte) any {
	t.Helper()
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatalf("parse %s: %v", what, err)
	}
	return value
}

func indent(t *testing.T, value any) []byte {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (-update writes it)", err)
	}
	return data
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
