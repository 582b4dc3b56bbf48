package proxy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/pilotlight/pilotlight/agent"
)

// A bootstrap that has not changed is in memory once, and one that is too long is refused with what to do.
func TestLongBootstraps(t *testing.T) {
	dir := t.TempDir()
	custom, binary := filepath.Join(dir, "custom.json"), filepath.Join(dir, "envoy")
	put := func(path string, size int) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Repeat(" ", size)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(custom, longestInput)
	put(binary, 1)
	want := desired{binary: binary, source: Source{Custom: Input{Name: "--customConfigFile", Path: custom}}}
	first, err := want.read(agent.Config{})
	if err != nil || len(first.Bootstrap) != longestInput {
		t.Fatalf("one of %d bytes: %d are read, %v", longestInput, len(first.Bootstrap), err)
	}
	again, err := want.read(first)
	if err != nil || unsafe.StringData(again.Bootstrap) != unsafe.StringData(first.Bootstrap) {
		t.Errorf("another copy of the same bootstrap is kept, %v", err)
	}
	put(custom, longestInput+1)
	_, err = want.read(first)
	if err == nil || !strings.Contains(err.Error(), "--customConfigFile: ") || !strings.Contains(err.Error(), "want at most 16 MiB: have Envoy") {
		t.Errorf("one that is too long: %v", err)
	}
}
