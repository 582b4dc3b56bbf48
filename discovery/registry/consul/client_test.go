package consul

import (
	"errors"
	"net/http"
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
		_, err := Config{CACert: path}.tls()
		wants(t, "the roots", err, want)
		settings, err := Config{ClientCert: path, ClientKey: path}.tls()
		if err != nil {
			t.Fatal(err)
		}
		_, err = settings.GetClientCertificate(nil)
		wants(t, "the client's certificate", err, want)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		_, err = door{Config{TokenFile: path}, nil}.RoundTrip(request)
		wants(t, "the token", err, want)
	}
}

func wants(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}
