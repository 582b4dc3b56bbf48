package plane

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/ca/store"
)

// A discovery that did not look meanwhile follows a rotation that came after another one, in the same phase; and one that came to its end.
func TestRotatingFollowsWhatItMissed(t *testing.T) {
	dir, at := t.TempDir(), time.Now()
	first, _, err := store.Open(dir, at)
	if err != nil {
		t.Fatal(err)
	}
	reloads := 0
	r := &fileAuthority{dir: dir, terms: ca.Terms{Most: time.Hour}, log: slog.New(slog.DiscardHandler), state: first, changed: func() error { reloads++; return nil }}
	step := func(after time.Duration) store.State {
		t.Helper()
		state, err := store.Step(dir, ca.Observed{Most: time.Hour}, at.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	rotate := func() {
		t.Helper()
		if _, err := store.Rotate(dir, false, at); err != nil {
			t.Fatal(err)
		}
	}
	rotate()
	r.take(step(0), nil)
	if err := store.Abort(dir, at); err != nil {
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
	state, err := store.Read(dir, at)
	if err != nil {
		t.Fatal(err)
	}
	r.take(state, nil)
	if r.signing().Root() == first.Authority.Root() {
		t.Error("the root that is forgotten signs")
	}
}

// replaced is an authority of files that are replaced, with the directory of its copy.
type replaced struct {
	*fileAuthority
	t     *testing.T
	first store.State
	other string // directory of the files that replace those of before
	at    time.Time
}

func newReplaced(t *testing.T, copies string) *replaced {
	t.Helper()
	r := &replaced{t: t, other: t.TempDir(), at: time.Now()}
	dir := t.TempDir()
	var err error
	if r.first, _, err = store.Open(dir, r.at); err == nil {
		_, _, err = store.Open(r.other, r.at)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.fileAuthority = &fileAuthority{dir: dir, copies: copies}
	r.starts(0)
	return r
}

// starts starts discovery again.
func (r *replaced) starts(after time.Duration) {
	r.t.Helper()
	r.at = r.at.Add(after)
	state, _, err := store.Open(r.dir, r.at)
	if err != nil {
		r.t.Fatal(err)
	}
	r.fileAuthority = &fileAuthority{
		dir: r.dir, copies: r.copies, terms: ca.Terms{Most: time.Hour}, log: slog.New(slog.DiscardHandler), state: state, changed: func() error { return nil },
	}
	r.open(r.at)
}

func (r *replaced) looks(after time.Duration) {
	r.at = r.at.Add(after)
	r.look(func([]byte) (live, with int) { return 0, 0 }, r.at, true)
}

// puts replaces a file by that of the other authority.
func (r *replaced) puts(names ...string) {
	r.t.Helper()
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(r.other, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(r.dir, name), text, 0o600)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *replaced) putsAll() { r.puts(ca.KeyFile, ca.CertFile, ca.RootsFile) }

// is compares which authority signs, how many roots are trusted, and what is said.
func (r *replaced) is(when string, old bool, roots int, want string) {
	r.t.Helper()
	if text := strings.Join(r.lines(), "; "); !strings.Contains(text, want) || want == "" && text != "" {
		r.t.Errorf("%s: %q, want %q", when, text, want)
	}
	if is := r.signing().Root() == r.first.Authority.Root(); is != old {
		r.t.Errorf("%s: the old root signs: %t, want %t", when, is, old)
	}
	if n := strings.Count(string(r.signing().Roots()), "BEGIN"); n != roots {
		r.t.Errorf("%s: %d roots are trusted, want %d", when, n, roots)
	}
}

// Files that are replaced are trusted before they sign, over a restart at each step.
func TestFilesOfAnotherAuthority(t *testing.T) {
	r := newReplaced(t, filepath.Join(t.TempDir(), "state", "authority"))
	r.is("first", true, 1, "")
	r.puts(ca.KeyFile)
	r.looks(0)
	r.is("one file", true, 1, "cannot be used, so the authority in use signs on")
	r.puts(ca.CertFile, ca.RootsFile)
	r.looks(0)
	r.is("all files", true, 2, "is being rotated, trust: ")
	info, err := os.Stat(filepath.Join(r.copies, "copy.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy has mode %v, %v; want 0600", info.Mode(), err)
	}
	r.starts(time.Minute)
	r.is("a restart in trust", true, 2, "is being rotated, trust: ")
	r.looks(time.Hour)
	r.is("a life later", false, 2, "is being rotated, leaves: ")
	r.starts(time.Minute)
	r.is("a restart in leaves", false, 2, "is being rotated, leaves: ")
	r.starts(2 * time.Hour)
	r.is("a restart after it", false, 1, "")
	r.starts(time.Minute)
	r.is("another one", false, 1, "")
}

// Files that were replaced while discovery did not run are not used at once either.
func TestFilesOfAnotherAuthorityAtAStart(t *testing.T) {
	r := newReplaced(t, filepath.Join(t.TempDir(), "authority"))
	r.putsAll()
	r.starts(time.Minute)
	r.is("a start", true, 2, "is being rotated, trust: ")
	if _, err := store.Rotate(r.dir, false, r.at); err != nil {
		t.Fatal(err)
	}
	r.looks(time.Second)
	r.is("a rotation of the files waits, whose root is in them", true, 3, "is being rotated, trust: ")
	r.looks(2 * time.Hour)
	r.looks(2 * time.Hour)
	r.looks(time.Second)
	if s := r.now(); s.Rotation.Phase != ca.Trust || s.Authority.Root() == r.first.Authority.Root() {
		t.Errorf("then it is at %q", s.Rotation.Phase)
	}
	r.looks(2 * time.Hour)
	r.looks(2 * time.Hour)
	r.looks(time.Second)
	r.is("its end", false, 1, "")
	last := r.signing().Root()
	r.starts(time.Second)
	r.is("a restart after it", false, 1, "")
	if r.signing().Root() != last {
		t.Error("after a restart another root signs")
	}
}

// Without a state directory nothing is begun that a restart would not go on with.
func TestFilesOfAnotherAuthorityWithoutState(t *testing.T) {
	r := newReplaced(t, "")
	r.putsAll()
	r.looks(0)
	r.is("replaced", true, 1, "the new one signs at once after a restart, when agents do not trust it yet, since there is no --stateDir")
	for range 5 {
		r.looks(time.Hour)
	}
	r.is("replaced long ago", true, 1, "the new one signs at once after a restart")
	r.starts(time.Second)
	r.is("a restart", false, 1, "")
}

// A copy that cannot be written, or believed, is no copy, and that is said.
func TestCopiesThatCannotBeUsed(t *testing.T) {
	const path = "copy.json"
	for name, of := range map[string]struct {
		change func(t *testing.T, dir string) error
		old    bool
		roots  int
		want   string
	}{
		"unchanged":                 {func(*testing.T, string) error { return nil }, true, 2, "is being rotated, trust: "},
		"removed":                   {func(_ *testing.T, dir string) error { return os.RemoveAll(dir) }, false, 1, ""},
		"half-written":              {func(_ *testing.T, dir string) error { return os.Truncate(filepath.Join(dir, path), 1000) }, false, 1, "the copy of the authority in --stateDir is not used"},
		"empty":                     {func(_ *testing.T, dir string) error { return os.Truncate(filepath.Join(dir, path), 0) }, false, 1, "is half-written or broken"},
		"written by all":            {func(_ *testing.T, dir string) error { return os.Chmod(filepath.Join(dir, path), 0o666) }, false, 1, "other users could replace the authority"},
		"read by all":               {func(_ *testing.T, dir string) error { return os.Chmod(filepath.Join(dir, path), 0o604) }, false, 1, "every user can use the key"},
		"in a directory of a group": {func(_ *testing.T, dir string) error { return os.Chmod(dir, 0o770) }, false, 1, "the authority has no copy in --stateDir"},
		"no file": {func(_ *testing.T, dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, path)), os.Mkdir(filepath.Join(dir, path), 0o700))
		}, false, 1, "is not used"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplaced(t, filepath.Join(t.TempDir(), "authority"))
			r.putsAll()
			if err := of.change(t, r.copies); err != nil {
				t.Fatal(err)
			}
			r.starts(time.Minute)
			r.is("a start", of.old, of.roots, of.want)
		})
	}
}

// Without room in the state directory a rotation does no step, whether discovery starts again or not; --now needs none.
func TestNoRoomForACopy(t *testing.T) {
	r := newReplaced(t, filepath.Join(t.TempDir(), "authority"))
	full := filepath.Join(r.copies, ".copy.json.new")
	fill := func() {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(full, "x"), 0o700); err != nil { // in place of the temporary file
			t.Fatal(err)
		}
	}
	fill()
	r.putsAll()
	for _, when := range []string{"replaced", "started again"} {
		r.looks(time.Second)
		r.is(when, true, 1, "the rotation waits until it can be stored: ")
		r.starts(time.Second)
	}
	for range 5 {
		r.looks(time.Hour)
	}
	r.is("much later", true, 1, "the rotation waits until it can be stored: ")
	if err := os.RemoveAll(full); err != nil {
		t.Fatal(err)
	}
	r.looks(time.Second)
	r.is("room", true, 2, "is being rotated, trust: ")
	fill()
	r.looks(2 * time.Hour)
	r.is("no room for the step", true, 2, "the rotation waits until it can be stored: ")
	if _, err := store.EndNow(r.dir, r.at.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	r.looks(2 * time.Second)
	r.is("now", false, 1, "the authority has no copy in --stateDir")
	r.starts(time.Second)
	r.is("a restart", false, 1, "the authority has no copy in --stateDir")
}

// A key that has leaked signs no more: whichever rotation is under way, at a running discovery, and at one that starts.
func TestRotateNow(t *testing.T) {
	for name, before := range map[string]func(r *replaced){
		"files were replaced":              func(r *replaced) { r.putsAll() },
		"files, seen":                      func(r *replaced) { r.putsAll(); r.looks(time.Second) },
		"files, which sign":                func(r *replaced) { r.putsAll(); r.looks(time.Second); r.looks(2 * time.Hour) },
		"a rotation of the root":           func(r *replaced) { r.rotates() },
		"a rotation, in trust":             func(r *replaced) { r.rotates(); r.looks(time.Second) },
		"a rotation, whose new root signs": func(r *replaced) { r.rotates(); r.looks(time.Second); r.looks(2 * time.Hour) },
	} {
		for _, copies := range []bool{true, false} {
			dir := ""
			if copies {
				dir = filepath.Join(t.TempDir(), "authority")
			}
			r := newReplaced(t, dir)
			before(r)
			r.at = r.at.Add(time.Second)
			ended, err := store.EndNow(r.dir, r.at)
			if err != nil {
				t.Fatal(err)
			}
			r.looks(time.Second)
			r.is(name, false, 1, "")
			if r.signing().Root() != ended.New || r.own().Root() != ended.New {
				t.Errorf("%s: %.16s signs, and %.16s discovery's own certificate; want %.16s", name, r.signing().Root(), r.own().Root(), ended.New)
			}
			r.starts(time.Second)
			r.is(name+", at a start", false, 1, "")
		}
	}
}

func (r *replaced) rotates() {
	r.t.Helper()
	if _, err := store.Rotate(r.dir, false, r.at); err != nil {
		r.t.Fatal(err)
	}
}
