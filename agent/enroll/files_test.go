package enroll

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An agent that is killed, or replaced, before it has the answer asks again with the same key: for another one a token that may be used once is
// dead. With the certificate the key is forgotten.
func TestAnUnansweredRequestIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, a := t.TempDir(), newAuthority(t, 24*time.Hour)
		first := open(t, a, dir, "once")
		answered := first.ask
		first.ask = func(ctx context.Context, csr, roots []byte, with *tls.Certificate, token string) (answer, error) {
			_, err := answered(ctx, csr, roots, with, token) // the authority has signed
			check(t, err)
			<-ctx.Done()
			return answer{}, ctx.Err()
		}
		first.run(time.Minute, nil)
		first.Close()
		second := open(t, a, dir, "once")
		second.run(30*time.Hour, nil) // one renewal at least
		second.Close()
		_, _, keys := a.seen()
		if len(keys) < 3 || keys[0] != keys[1] || slices.Contains(keys[2:], keys[0]) {
			t.Errorf("%d requests, the second with the key of the first: %t, later ones too: %t", len(keys), keys[0] == keys[1], slices.Contains(keys[2:], keys[0]))
		}
		if entries, err := filepath.Glob(filepath.Join(second.dir, pendingFile+"*")); err != nil || len(entries) > 0 {
			t.Errorf("left: %v, %v", entries, err)
		}
	})
}

// What lies there for a key and is none, or is that of the certificate, is replaced.
func TestEachCertificateHasAKeyOfItsOwn(t *testing.T) {
	f := open(t, newAuthority(t, time.Hour), t.TempDir(), "token")
	defer f.Close()
	check(t, f.renew(t.Context(), nil, f.pending())) // the key stays, as when the agent is killed right then
	h, err := f.dir_().read(time.Now())
	check(t, err)
	of, err := os.ReadFile(filepath.Join(f.dir, pendingFile))
	check(t, err)
	for name, text := range map[string]string{
		"that of the certificate": string(of), "half": string(of[:len(of)/2]), "nothing": "", "another kind": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
	} {
		check(t, os.WriteFile(filepath.Join(f.dir, pendingFile), []byte(text), 0o600))
		p := f.pending()
		if _, err := p.request(h); err != nil || isOf(p.key, h) {
			t.Errorf("%s: %v, the certificate's: %t", name, err, isOf(p.key, h))
		}
		if again, _ := f.pending().read(); !p.key.Equal(again) {
			t.Errorf("%s: the new key is not in the file", name)
		}
	}
}

// A token that may be used once is not spent on a key that a crash would lose.
func TestAKeyThatCannotBeWritten(t *testing.T) {
	f := open(t, newAuthority(t, time.Hour), t.TempDir(), "once")
	defer f.Close()
	check(t, os.MkdirAll(filepath.Join(f.dir, pendingFile, "in the way"), 0o700))
	if err := f.renew(t.Context(), nil, f.pending()); err == nil || !strings.Contains(err.Error(), "not asked, for the key") {
		t.Errorf("%v", err)
	}
	if asked, _, _ := f.a.seen(); len(asked) > 0 {
		t.Errorf("asked by %v", asked)
	}
	if _, err := os.Stat(filepath.Join(f.dir, pendingFile+".new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
	check(t, os.RemoveAll(filepath.Join(f.dir, pendingFile)))
	check(t, f.renew(t.Context(), nil, f.pending()))
}
