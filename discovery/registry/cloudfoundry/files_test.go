package cloudfoundry

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe or a device in the place of a file is reported, and never read.
func TestFilesAreRegular(t *testing.T) {
	dir := t.TempDir()
	pipe, zero := filepath.Join(dir, "pipe"), filepath.Join(dir, "zero")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink("/dev/zero", zero)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: pipe + ": is a pipe, want a file", zero: zero + ": is a device, want a file"} {
		for name, b := range map[string]Broker{"credentials": {Credentials: path}, "roots": {CA: path}, "a certificate": {Cert: path, Key: path}} {
			b.URLs = []string{"nats://127.0.0.1:1"}
			if _, err := b.connect(t.Context()); err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
	}
}
