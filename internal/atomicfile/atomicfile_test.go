package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTake(t *testing.T) {
	dir := t.TempDir()
	name, temporary := filepath.Join(dir, "file"), filepath.Join(dir, "file.new")
	check(t, os.WriteFile(name, []byte("before"), 0o644))
	check(t, os.Symlink(name, temporary)) // what somebody has left
	file, err := Create(temporary, 0o600)
	check(t, err)
	_, err = file.WriteString("after")
	check(t, err)
	if text, _ := os.ReadFile(name); string(text) != "before" {
		t.Errorf("before it is taken there is %q", text)
	}
	check(t, Take(file, name))
	check(t, file.Close())
	text, err := os.ReadFile(name)
	check(t, err)
	info, err := os.Lstat(name)
	check(t, err)
	if string(text) != "after" || info.Mode() != 0o600 {
		t.Errorf("there is %q, of mode %v", text, info.Mode())
	}
	if _, err := os.Lstat(temporary); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary name: %v", err)
	}
}

func TestFaults(t *testing.T) {
	dir := t.TempDir()
	temporary := filepath.Join(dir, "file.new")
	check(t, os.MkdirAll(filepath.Join(temporary, "full"), 0o700))
	if _, err := Create(temporary, 0o600); err == nil {
		t.Error("a directory is replaced")
	}
	file, err := Create(filepath.Join(dir, "other.new"), 0o600)
	check(t, err)
	if err := Take(file, temporary); err == nil {
		t.Error("a file takes the name of a directory")
	}
	check(t, Drop(file))
	if _, err := os.Lstat(file.Name()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("dropped: %v", err)
	}
	if err := Take(file, filepath.Join(dir, "other")); err == nil {
		t.Error("a file that is closed is taken")
	}
	if err := Sync("/proc"); err != nil { // a file system that cannot: EINVAL
		t.Errorf("/proc: %v", err)
	}
	if err := Sync(filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that is not there is synced")
	}
}
