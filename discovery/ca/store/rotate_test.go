package store

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

const life = time.Hour

// signs returns the root that signs a leaf.
func (s State) signs() string { return s.Authority.Root() }

func trusts(s State) int { return bytes.Count(s.Authority.Roots(), []byte("BEGIN")) }

func step(t *testing.T, dir string, at time.Time) State {
	t.Helper()
	_, err := Step(dir, ca.Observed{Most: life}, at)
	check(t, err)
	s, made, err := Open(dir, at) // as after a restart
	check(t, err)
	if made {
		t.Fatal("a root was made")
	}
	return s
}

// A root is replaced in steps, each of which a restart finds again.
func TestRotate(t *testing.T) {
	dir, at := t.TempDir(), time.Now()
	first, _, err := Open(dir, at)
	check(t, err)
	old := first.signs()
	r, err := Rotate(dir, false, at)
	check(t, err)
	if again, err := Rotate(dir, false, at); err != nil || again != r {
		t.Errorf("a second rotation: %v, %v", again, err)
	}
	for _, of := range []struct {
		after      time.Duration
		phase      ca.Phase
		signs, own string
		trusts     int
	}{
		{0, ca.Trust, old, old, 2},
		{life, ca.Trust, old, old, 2},
		{life + time.Minute, ca.Leaves, r.New, old, 2},
		{2 * life, ca.Leaves, r.New, old, 2},
		{2*life + 2*time.Minute, "", r.New, r.New, 1},
	} {
		s := step(t, dir, at.Add(of.after))
		if s.Rotation.Phase != of.phase || s.signs() != of.signs || s.Own.Root() != of.own || trusts(s) != of.trusts {
			t.Errorf("after %s: phase %q, signed by %.8s, own by %.8s, %d roots; want %+v", of.after, s.Rotation.Phase, s.signs(), s.Own.Root(), trusts(s), of)
		}
		text, err := os.ReadFile(filepath.Join(dir, ca.RootsFile))
		check(t, err)
		if n := bytes.Count(text, []byte("BEGIN")); n != of.trusts {
			t.Errorf("after %s: %s has %d roots, want %d", of.after, ca.RootsFile, n, of.trusts)
		}
	}
	for name := range modes(t, dir) {
		if strings.Contains(name, "next") || name == rotationFile {
			t.Errorf("%s was left", name)
		}
	}
	if modes(t, dir)[ca.KeyFile] != 0o600 {
		t.Errorf("modes %v", modes(t, dir))
	}
}

// A rotation is not begun by chance a short time after the last one, and an authority that was not made here is not replaced.
func TestRotateRefuses(t *testing.T) {
	dir, at := t.TempDir(), time.Now()
	_, _, err := Open(dir, at)
	check(t, err)
	first, err := Rotate(dir, false, at)
	check(t, err)
	if none, err := Last(dir); err != nil || none.Phase != "" {
		t.Errorf("before the end the last one is %+v, %v", none, err)
	}
	for n := range time.Duration(3) {
		step(t, dir, at.Add(n*(life+time.Minute)))
	}
	end := at.Add(2*life + 3*time.Minute)
	if last, err := Last(dir); err != nil || last.New != first.New {
		t.Errorf("the last one is %+v, %v", last, err)
	}
	if _, err := Rotate(dir, false, end); err == nil || !strings.Contains(err.Error(), "--again") {
		t.Errorf("after the end: %v", err)
	}
	if s, err := Read(dir, end); err != nil || s.Rotation.Phase != "" {
		t.Errorf("%+v, %v", s.Rotation, err)
	}
	if r, err := Rotate(dir, true, end); err != nil || r.Old != first.New {
		t.Errorf("again: %+v, %v", r, err)
	}
	check(t, Abort(dir, end))
	if _, err := Rotate(dir, false, end.Add(life)); err != nil {
		t.Errorf("after a life: %v", err)
	}

	plugged, err := ca.NewRoot("Example Corp root", ca.RootLife, at)
	check(t, err)
	other := t.TempDir()
	check(t, do(other, []change{{ca.KeyFile, plugged.Key, 0o600}, {ca.RootsFile, plugged.Roots, 0o644}, {ca.CertFile, plugged.Cert, 0o644}}))
	if _, err := Rotate(other, true, at); err == nil || !strings.Contains(err.Error(), "was not made here") {
		t.Errorf("a plugged root: %v", err)
	}
	if names := modes(t, other); len(names) != 4 { // with the lock
		t.Errorf("it has left %v", names)
	}
}

// The end of a rotation may be broken off before and after each file.
func TestRotateBrokenOff(t *testing.T) {
	names := []string{ca.KeyFile, ca.RootsFile, ca.CertFile}
	for n := range len(names) + 1 {
		dir, at := t.TempDir(), time.Now()
		_, _, err := Open(dir, at)
		check(t, err)
		r, err := Rotate(dir, false, at)
		check(t, err)
		step(t, dir, at)
		s := step(t, dir, at.Add(life+time.Minute))
		s.Rotation.Phase = ca.Forget
		text, err := s.Rotation.Bytes()
		check(t, err)
		check(t, write(dir, rotationFile, text, 0o600))
		for _, name := range names[:n] {
			text, err := os.ReadFile(filepath.Join(dir, next(name)))
			check(t, err)
			check(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
		if s, _, err := Open(dir, at); err != nil || s.signs() != r.New || trusts(s) != 1 {
			t.Fatalf("after %d files: %v", n, err)
		}
		if s := step(t, dir, at.Add(3*life)); s.Rotation.Phase != "" || s.signs() != r.New || trusts(s) != 1 {
			t.Errorf("after %d files the rotation does not end: %+v", n, s.Rotation)
		}
	}
}

// Root writes no files that discovery's user cannot read.
func TestRotateAsRoot(t *testing.T) {
	if mine(0, 0) != nil || mine(1000, 1000) != nil || mine(0, 1000) != nil {
		t.Error("an owner is refused")
	}
	if err := mine(1000, 0); err == nil || !strings.Contains(err.Error(), "belongs to the user 1000") {
		t.Error(err)
	}
}

// A rotation is aborted while the new root has signed nothing.
func TestAbort(t *testing.T) {
	dir, at := t.TempDir(), time.Now()
	first, _, err := Open(dir, at)
	check(t, err)
	if err := Abort(dir, at); err == nil || !strings.Contains(err.Error(), "no root is being rotated") {
		t.Error(err)
	}
	_, err = Rotate(dir, false, at)
	check(t, err)
	step(t, dir, at)
	check(t, Abort(dir, at))
	if _, err := Read(t.TempDir(), at); err == nil {
		t.Error("an authority was read where there is none")
	}
	if s := step(t, dir, at.Add(9*life)); s.Rotation.Phase != "" || s.signs() != first.signs() || trusts(s) != 1 {
		t.Errorf("after an abort: %+v, %d roots", s.Rotation, trusts(s))
	}
	_, err = Rotate(dir, false, at)
	check(t, err)
	step(t, dir, at)
	step(t, dir, at.Add(2*life))
	if err := Abort(dir, at); err == nil || !strings.Contains(err.Error(), "let the rotation end") {
		t.Error(err)
	}
}

// A rotation that is broken is no reason to sign with either root.
func TestARotationThatIsBroken(t *testing.T) {
	for fault, spoil := range map[string]func(dir string) error{
		"parse the rotation":      func(dir string) error { return os.WriteFile(filepath.Join(dir, rotationFile), []byte("{"), 0o600) },
		"and not ca-key.next.pem": func(dir string) error { return os.Remove(filepath.Join(dir, "ca-key.next.pem")) },
		"has no authority": func(dir string) error {
			return do(dir, removed("ca-key.next.pem", "ca-cert.next.pem", "root-cert.next.pem"))
		},
		"rotated: ":                func(dir string) error { return do(dir, removed(ca.KeyFile, ca.CertFile, ca.RootsFile)) },
		"so every user can use":    func(dir string) error { return os.Chmod(filepath.Join(dir, "ca-key.next.pem"), 0o644) },
		"rotation.json names aaaa": func(dir string) error { return rename(dir, func(r *ca.Rotation) { r.New = strings.Repeat("a", 64) }) },
		"rotation.json names bbbb": func(dir string) error { return rename(dir, func(r *ca.Rotation) { r.Old = strings.Repeat("b", 64) }) },
	} {
		dir, at := t.TempDir(), time.Now()
		_, _, err := Open(dir, at)
		check(t, err)
		_, err = Rotate(dir, false, at)
		check(t, err)
		check(t, spoil(dir))
		if _, made, err := Open(dir, at); made || err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%t %v, want %q", made, err, fault)
		}
		if _, err := Step(dir, ca.Observed{Most: life}, at); err == nil {
			t.Errorf("%s: a step was done", fault)
		}
	}
}

func rename(dir string, change func(*ca.Rotation)) error {
	r, err := rotationOf(dir)
	if err != nil {
		return err
	}
	change(&r)
	text, err := r.Bytes()
	if err != nil {
		return err
	}
	return write(dir, rotationFile, text, 0o600)
}
