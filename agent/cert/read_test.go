package cert

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Whatever a name leads to, it is read in no time and in bounds.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(at("file"), []byte("text"), 0o600),
		os.WriteFile(at("long"), nil, 0o600), os.Truncate(at("long"), longestFile+1),
		os.Symlink(at("file"), at("link")), os.Symlink("/dev/zero", at("zero")), syscall.Mkfifo(at("pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"file", "link"} {
		if data, err := ReadFile(at(name)); string(data) != "text" || err != nil {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	for name, want := range map[string]string{
		"long": "it is too long", "zero": "it is no regular file", "pipe": "it is no regular file", "": "it is no regular file",
	} {
		if data, err := ReadFile(at(name)); data != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d bytes, %v; want %s", name, len(data), err, want)
		}
	}
	if _, err := ReadFile(at("missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
