package mcp

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
)

// A pipe or a device in the place of a file is reported, and never read.
func TestFilesAreRegular(t *testing.T) {
	dir := t.TempDir()
	pipe, zero := filepath.Join(dir, "pipe"), filepath.Join(dir, "zero")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink("/dev/zero", zero)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: pipe + ": is a pipe, want a file", zero: zero + ": is a device, want a file"} {
		for name, s := range map[string]*networking.ClientTLSSettings{
			"roots":                  {Mode: networking.ClientTLSSettings_SIMPLE, CaCertificates: path},
			"the client's own chain": {Mode: networking.ClientTLSSettings_MUTUAL, ClientCertificate: path, PrivateKey: path},
		} {
			if _, err := secure("istiod.test:15010", s); err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
	}
}
