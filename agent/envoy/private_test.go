package envoy

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// openGround is a configPath in which others may write, and the log of its slots.
func openGround(t *testing.T) (ground, *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o777))
	base, err := os.Open(dir)
	must(t, err)
	t.Cleanup(func() { base.Close() })
	log := new(bytes.Buffer)
	return ground{path: dir, base: base, log: slog.New(slog.NewTextHandler(log, nil))}, log
}

func (g ground) mustClaim(t *testing.T) (*Slot, int) {
	t.Helper()
	s, n, err := g.claim()
	must(t, err)
	t.Cleanup(func() { s.close() })
	return s, n
}

// Another user renames a slot and puts another directory in its place: the agent still uses its own files.
func TestAPrivateSlotIsReachedByItsDescriptor(t *testing.T) {
	g, _ := openGround(t)
	s, _ := g.mustClaim(t)
	if info, err := os.Stat(s.Name()); err != nil || info.Mode() != fs.ModeDir|0o700 || s.Name() != filepath.Join(g.path, "private-0") {
		t.Fatalf("%s: %v, %v; want a directory for its owner alone", s.Name(), info, err)
	}
	must(t, writeFile(filepath.Join(s.Dir(), "envoy-rev0.json"), "ours"))
	moved := filepath.Join(g.path, "moved")
	must(t, os.Rename(s.Name(), moved))
	must(t, os.Mkdir(s.Name(), 0o777))
	must(t, os.WriteFile(filepath.Join(s.Name(), "envoy-rev0.json"), []byte("forged"), 0o666))

	text, err := os.ReadFile(filepath.Join(s.Dir(), "envoy-rev0.json"))
	if string(text) != "ours" || err != nil {
		t.Errorf("Envoy would read %q, %v", text, err)
	}
	must(t, writeFile(filepath.Join(s.Dir(), "envoy-rev1.json"), "ours"))
	if in, err := s.Room(); in.dir != s.Dir() || err != nil {
		t.Errorf("Room: %s, %v", in, err)
	}
	if got := names(t, moved); !slices.Equal(got, []string{lockName, "envoy-rev0.json", "envoy-rev1.json"}) {
		t.Errorf("the slot has %q", got)
	}
	if err := s.Release(); err == nil || !strings.Contains(err.Error(), "another directory has taken its name") {
		t.Errorf("Release: %v, want it to say what it found", err)
	}
	if got := names(t, s.Name()); !slices.Equal(got, []string{"envoy-rev0.json"}) {
		t.Errorf("the other's directory has %q", got)
	}
}

// Another user removes a slot while it is still empty: the agent takes the next one.
func TestAPrivateSlotIsRemovedBeforeItIsHeld(t *testing.T) {
	g, _ := openGround(t)
	s, err := g.enter(0, true)
	must(t, err)
	must(t, os.Remove(s.Name()))
	var stranger notOurs
	if held, err := s.hold(); held || !errors.As(err, &stranger) || !strings.Contains(stranger.why, "removed") {
		t.Errorf("hold: %t, %v; want it to say that the directory was removed", held, err)
	}
	must(t, s.close())
	next, _ := g.mustClaim(t)
	must(t, next.Release())
}

func TestPrivateSlotsAreSharedAndReleased(t *testing.T) {
	g, _ := openGround(t)
	first, _ := g.mustClaim(t)
	second, _ := g.mustClaim(t)
	if second.Name() != filepath.Join(g.path, "private-1") {
		t.Errorf("the second is %s", second.Name())
	}
	if got := FindSlot(g.path); got != first.Name() {
		t.Errorf("FindSlot: %s", got)
	}
	must(t, second.Release())
	must(t, first.Release())
	empty(t, g.path)
	if got := FindSlot(g.path); got != g.path {
		t.Errorf("FindSlot without slots: %s", got)
	}
}

// The next agent finds the record of a killed agent, and ends its Envoy.
func TestAPrivateSlotHasAnHeir(t *testing.T) {
	g, log := openGround(t)
	pid, reaped := sleeper(t)
	s, _ := g.mustClaim(t)
	must(t, s.Starting(0))
	must(t, s.Started(pid, 0))
	touch(t, filepath.Join(s.Dir(), "envoy-rev0.json"))
	s.die()
	heir, n := g.mustClaim(t)
	<-reaped
	if got := names(t, heir.Name()); n != 0 || !slices.Equal(got, []string{lockName}) {
		t.Errorf("slot %d has %q:\n%s", n, got, log)
	}
}

// A file that another program made under the name of a slot is left alone, and the log says what it is. None of it
// makes the agent wait.
func TestStrangersInThePlaceOfSlots(t *testing.T) {
	for name, test := range map[string]struct {
		make func(path, other string) error
		why  string
	}{
		"a link to a directory": {func(path, other string) error { return os.Symlink(filepath.Dir(other), path) }, "it is no directory"},
		"a link to a file":      {func(path, other string) error { return os.Symlink(other, path) }, "it is no directory"},
		"a link to itself":      {func(path, _ string) error { return os.Symlink(path, path) }, "it is no directory"},
		"another name":          {func(path, other string) error { return os.Link(other, path) }, "it is no directory"},
		"a pipe":                {func(path, _ string) error { return syscall.Mkfifo(path, 0o666) }, "it is no directory"},
		"a huge file": {func(path, _ string) error {
			return errors.Join(os.WriteFile(path, nil, 0o666), os.Truncate(path, 1<<40))
		}, "it is no directory"},
		"an open directory": {func(path, _ string) error { return errors.Join(os.Mkdir(path, 0o777), os.Chmod(path, 0o777)) }, "others may enter it"},
	} {
		t.Run(name, func(t *testing.T) {
			g, log := openGround(t)
			other := filepath.Join(t.TempDir(), "other")
			must(t, os.WriteFile(other, []byte("precious"), 0o644))
			must(t, test.make(filepath.Join(g.path, "private-0"), other))
			s, n := g.mustClaim(t)
			if n != 1 || !strings.Contains(log.String(), test.why) {
				t.Errorf("slot %d:\n%s\nwant the next one, and %q", n, log, test.why)
			}
			must(t, s.Release())
			if text, err := os.ReadFile(other); string(text) != "precious" || err != nil {
				t.Errorf("the other file has %q, %v", text, err)
			}
			if got := names(t, g.path); !slices.Equal(got, []string{"private-0"}) {
				t.Errorf("left: %q", got)
			}
		})
	}
}

func TestStrangersInThePlaceOfAllSlots(t *testing.T) {
	g, _ := openGround(t)
	for n := range slots {
		touch(t, g.name(n))
	}
	if _, _, err := g.claim(); err == nil || !strings.Contains(err.Error(), "others have made 64 of the 64 names of slots") {
		t.Errorf("%v", err)
	}
}
