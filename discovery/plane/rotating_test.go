package plane

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/ca/keep"
)

// A discovery that did not look meanwhile follows a rotation that came after another one, in the same phase; and one that came to its end.
func TestRotatingFollowsWhatItMissed(t *testing.T) {
	dir, at := t.TempDir(), time.Now()
	first, _, err := keep.Open(dir, at)
	if err != nil {
		t.Fatal(err)
	}
	reloads := 0
	r := &rotating{dir: dir, terms: ca.Terms{Most: time.Hour}, log: slog.New(slog.DiscardHandler), state: first, changed: func() error { reloads++; return nil }}
	step := func(after time.Duration) keep.State {
		t.Helper()
		state, err := keep.Step(dir, ca.Observed{Most: time.Hour}, at.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	rotate := func() {
		t.Helper()
		if _, err := keep.Rotate(dir, false, at); err != nil {
			t.Fatal(err)
		}
	}
	rotate()
	r.take(step(0), nil)
	if err := keep.Abort(dir, at); err != nil {
		t.Fatal(err)
	}
	rotate()
	second := step(0)
	r.take(second, nil)
	if !bytes.Equal(r.signing().Roots(), second.Authority.Roots()) || reloads != 2 {
		t.Errorf("the roots are those of a rotation that was aborted, after %d reloads", reloads)
	}
	r.take(second, nil)
	if reloads != 2 {
		t.Error("the same was reloaded")
	}

	r.take(first, nil) // as if it had slept since
	step(2 * time.Hour)
	step(5 * time.Hour)
	state, err := keep.Read(dir, at)
	if err != nil {
		t.Fatal(err)
	}
	r.take(state, nil)
	if r.signing().Root() == first.Authority.Root() {
		t.Error("the root that is forgotten signs")
	}
}

// Files that change under a running discovery are named, and not used.
func TestFilesOfAnotherAuthority(t *testing.T) {
	dir, other, at := t.TempDir(), t.TempDir(), time.Now()
	first, _, err := keep.Open(dir, at)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := keep.Open(other, at); err != nil {
		t.Fatal(err)
	}
	r := &rotating{dir: dir, log: slog.New(slog.DiscardHandler), state: first}
	says := func(when, want string) {
		t.Helper()
		r.compare(at)
		if text := strings.Join(r.lines(), "; "); !strings.Contains(text, want) || want == "" && text != "" {
			t.Errorf("%s: %q, want %q", when, text, want)
		}
		if r.signing() != first.Authority {
			t.Errorf("%s: another authority signs", when)
		}
	}
	copied := func(name string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(other, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	says("unchanged", "")
	copied(ca.KeyFile)
	says("one file", "cannot be used, and a restart would fail")
	copied(ca.CertFile)
	copied(ca.RootsFile)
	says("all files", "signs until a restart, and then")
	if _, err := keep.Rotate(dir, false, at); err != nil {
		t.Fatal(err)
	}
	says("a rotation", "")
}
