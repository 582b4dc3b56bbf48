package store

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newKey(t *testing.T) ca.Key {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	check(t, err)
	out, err := ca.ReadRequest(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	check(t, err)
	return out
}

func modes(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	out := map[string]fs.FileMode{}
	for _, e := range entries {
		info, err := e.Info()
		check(t, err)
		out[e.Name()] = info.Mode()
	}
	return out
}

func TestARootIsMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "ca")
	first, made, err := Open(dir, time.Now())
	check(t, err)
	if !made {
		t.Error("it says that it has made no root")
	}
	info, err := os.Stat(dir)
	check(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %o", info.Mode().Perm())
	}
	want := map[string]fs.FileMode{ca.KeyFile: 0o600, ca.CertFile: 0o644, ca.RootsFile: 0o644, lockFile: 0o600}
	got := modes(t, dir)
	for name, mode := range want {
		if got[name] != mode {
			t.Errorf("%s has mode %o, want %o", name, got[name], mode)
		}
	}
	if len(got) != len(want) {
		t.Errorf("files %v, want %v", got, want)
	}
	second, made, err := Open(dir, time.Now())
	check(t, err)
	if made || !bytes.Equal(first.Authority.Roots(), second.Authority.Roots()) {
		t.Error("a second root was made")
	}
}

func TestASecondRootIsNeverMade(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		want   string
	}{
		"no key":         {remove(ca.KeyFile), "has ca-cert.pem, root-cert.pem and not ca-key.pem: a second root is never made"},
		"no certificate": {remove(ca.CertFile), "has ca-key.pem, root-cert.pem and not ca-cert.pem"},
		"no roots":       {remove(ca.RootsFile), "and not root-cert.pem"},
		"the key alone":  {remove(ca.CertFile, ca.RootsFile), "has ca-key.pem and not ca-cert.pem, root-cert.pem"},
		"half a certificate": {func(t *testing.T, dir string) {
			check(t, os.Truncate(filepath.Join(dir, ca.CertFile), 200))
		}, "ca-cert.pem: is half-written"},
		"an empty key": {func(t *testing.T, dir string) { check(t, os.Truncate(filepath.Join(dir, ca.KeyFile), 0)) }, "ca-key.pem: has no key"},
		"a pipe": {func(t *testing.T, dir string) {
			remove(ca.CertFile)(t, dir)
			check(t, syscall.Mkfifo(filepath.Join(dir, ca.CertFile), 0o600))
		}, "is a pipe"},
		"a key for all":               {func(t *testing.T, dir string) { check(t, os.Chmod(filepath.Join(dir, ca.KeyFile), 0o604)) }, "ca-key.pem: has mode 0604"},
		"a directory for all":         {func(t *testing.T, dir string) { check(t, os.Chmod(dir, 0o777)) }, "has mode 0777, so other users could replace the authority"},
		"a key that a group writes":   {func(t *testing.T, dir string) { check(t, os.Chmod(filepath.Join(dir, ca.KeyFile), 0o620)) }, "ca-key.pem: has mode 0620, so other users could replace"},
		"roots that others write":     {func(t *testing.T, dir string) { check(t, os.Chmod(filepath.Join(dir, ca.RootsFile), 0o666)) }, "root-cert.pem: has mode 0666"},
		"an issuer that others write": {func(t *testing.T, dir string) { check(t, os.Chmod(filepath.Join(dir, ca.CertFile), 0o646)) }, "ca-cert.pem: has mode 0646"},
		"a directory of a group":      {func(t *testing.T, dir string) { check(t, os.Chmod(dir, 0o770)) }, "has mode 0770, so other users could replace the authority"},
		"a sticky directory":          {func(t *testing.T, dir string) { check(t, os.Chmod(dir, 0o777|os.ModeSticky)) }, "has mode 0777"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, _, err := Open(dir, time.Now())
			check(t, err)
			c.change(t, dir)
			before := modes(t, dir)
			if _, _, err := Open(dir, time.Now()); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if after := modes(t, dir); len(after) != len(before) {
				t.Errorf("files %v became %v", before, after)
			}
		})
	}
}

func remove(names ...string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		for _, name := range names {
			check(t, os.Remove(filepath.Join(dir, name)))
		}
	}
}

// A process that was killed while it wrote leaves a file that changes nothing.
func TestWhatAKilledProcessLeft(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, ".ca-key.pem.new"), []byte("half"), 0o600))
	if _, made, err := Open(dir, time.Now()); err != nil || !made {
		t.Errorf("made %v, %v", made, err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".ca-key.pem.new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestTokensAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	now := time.Now()
	created, text, err := Tokens(dir).Create(t.Context(), "shop", "web", time.Minute, true, now)
	check(t, err)
	if mode := modes(t, dir)[tokensFile]; mode != 0o600 {
		t.Errorf("mode %o, want 0600", mode)
	}
	mine := newKey(t)
	used, err := Tokens(dir).Redeem(t.Context(), text, mine, now)
	if err != nil || used.ID != created.ID || used.ServiceAccount != "web" {
		t.Errorf("%+v, %v", used, err)
	}
	if _, err := Tokens(dir).Redeem(t.Context(), text, newKey(t), now); err == nil || !strings.Contains(err.Error(), "was used for another key") {
		t.Errorf("used again: %v", err)
	}
	check(t, Tokens(dir).Revoke(t.Context(), created.ID))
	if _, err := Tokens(dir).Redeem(t.Context(), text, mine, now); err == nil || !strings.Contains(err.Error(), "is revoked") {
		t.Errorf("revoked: %v", err)
	}
	all, err := Tokens(dir).List(t.Context())
	if err != nil || len(all) != 1 || all[0].State(now) != "revoked" {
		t.Errorf("%+v, %v", all, err)
	}
	check(t, os.WriteFile(filepath.Join(dir, tokensFile), []byte(`[{"id"`), 0o600))
	if _, _, err := Tokens(dir).Create(t.Context(), "shop", "web", time.Minute, true, now); err == nil || !strings.Contains(err.Error(), tokensFile) {
		t.Errorf("a half-written file: %v", err)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, tokensFile)); string(text) != `[{"id"` {
		t.Error("it is overwritten")
	}
}

// One use of a token is one, also where many try at once.
func TestATokenIsUsedOnce(t *testing.T) {
	dir := t.TempDir()
	_, text, err := Tokens(dir).Create(t.Context(), "shop", "web", time.Minute, true, time.Now())
	check(t, err)
	var all sync.WaitGroup
	taken := make(chan ca.Token, 16)
	for range 16 {
		key := newKey(t)
		all.Go(func() {
			if token, err := Tokens(dir).Redeem(t.Context(), text, key, time.Now()); err == nil {
				taken <- token
			}
		})
	}
	all.Wait()
	if len(taken) != 1 {
		t.Errorf("%d keys have used it, want one", len(taken))
	}
}

// A use of a token that may be used often is kept to the minute, so that it costs no write each time.
func TestTokensOfManyUsesAreWrittenSeldom(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	_, text, err := Tokens(dir).Create(t.Context(), "shop", "web", time.Hour, false, now)
	check(t, err)
	use := func(at time.Time) fs.FileInfo {
		t.Helper()
		_, err := Tokens(dir).Redeem(t.Context(), text, newKey(t), at)
		check(t, err)
		info, err := os.Stat(filepath.Join(dir, tokensFile))
		check(t, err)
		return info
	}
	first, second, third := use(now), use(now.Add(time.Second)), use(now.Add(2*time.Minute))
	if !os.SameFile(first, second) || os.SameFile(second, third) {
		t.Error("want the second use not written, and the third one")
	}
}
