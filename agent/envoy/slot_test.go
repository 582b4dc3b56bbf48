package envoy

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// die does what the kernel does to a slot when its agent is killed.
func (s *Slot) die() { s.lock.Close() }

func claim(t *testing.T, configPath string) *Slot {
	t.Helper()
	s, err := Claim(configPath, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.die)
	return s
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestAgentsShareAConfigPath(t *testing.T) {
	configPath := filepath.Join(lab.ShortDir(t), "etc", "proxy")
	first, second, third := claim(t, configPath), claim(t, configPath), claim(t, configPath)
	for s, want := range map[*Slot]string{
		first: configPath, second: configPath + "/agent-1", third: configPath + "/agent-2",
	} {
		if s.Dir() != want {
			t.Errorf("Dir: got %s, want %s", s.Dir(), want)
		}
	}
	must(t, second.Release())
	if again := claim(t, configPath); again.Dir() != second.Dir() {
		t.Errorf("after a release: got %s, want %s again", again.Dir(), second.Dir())
	} else {
		must(t, again.Release())
	}
	must(t, third.Release())
	must(t, first.Release())
	if _, err := os.Stat(configPath); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s after each release: %v, want it gone, as before", configPath, err)
	}
}

func TestReleaseKeepsWhatWasThere(t *testing.T) {
	configPath := t.TempDir()
	touch(t, filepath.Join(configPath, "custom.json"))
	must(t, claim(t, configPath).Release())
	if got := names(t, configPath); !slices.Equal(got, []string{"custom.json"}) {
		t.Errorf("after a release: %v, want only custom.json", got)
	}
}

func TestReleaseWithALivingChildLeavesItToAnHeir(t *testing.T) {
	configPath := t.TempDir()
	pid, reaped := sleeper(t)
	s := claim(t, configPath)
	must(t, s.Starting(0))
	must(t, s.Started(pid, 0))
	must(t, s.Release())
	must(t, claim(t, configPath).Release())
	<-reaped
	empty(t, configPath)
}

func TestEndedSweepsAFamilyWithItsLast(t *testing.T) {
	s, family := claim(t, t.TempDir()), newBaseID(t)
	parent, _ := sleeper(t)
	touch(t, family.Segment())
	must(t, s.Starting(family))
	must(t, s.Started(parent, family))
	must(t, s.Starting(family)) // the newcomer
	must(t, s.Ended(parent))
	if taken, err := family.InUse(); !taken || err != nil {
		t.Errorf("with a newcomer: taken %t, %v; want it kept", taken, err)
	}
	must(t, s.NotStarted(family))
	if taken, err := family.InUse(); taken || err != nil {
		t.Errorf("after the last: taken %t, %v; want it swept", taken, err)
	}
	must(t, s.Ended(parent)) // again: nothing
}

// An owner removes the file that another has just opened: the other's lock would be on a file without a name.
func TestLockFileHasOneOwnerWhileItIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), lockName)
	var owners, most atomic.Int32
	var contenders sync.WaitGroup
	for range 4 {
		contenders.Go(func() {
			for range 500 {
				file, err := lockFile(path)
				if err != nil {
					t.Error(err)
				}
				if file == nil {
					continue
				}
				n := owners.Add(1)
				runtime.Gosched()
				most.Store(max(most.Load(), n))
				owners.Add(-1)
				os.Remove(path) // here it may have a new owner
				file.Close()
			}
		})
	}
	contenders.Wait()
	if most.Load() != 1 {
		t.Errorf("%d owners at once, want 1", most.Load())
	}
}

func TestClaimErrorSaysWhatToDo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	touch(t, file)
	for _, configPath := range []string{file, filepath.Join(file, "below")} {
		if _, err := Claim(configPath, slog.New(slog.DiscardHandler)); err == nil ||
			!strings.Contains(err.Error(), "claim "+configPath) || !strings.Contains(err.Error(), "must be a directory") {
			t.Errorf("Claim: %v, want an error that names the path and what it must be", err)
		}
	}
	for errno, want := range map[syscall.Errno]string{
		syscall.ENOSPC: "free some space",
		syscall.EDQUOT: "free some space",
		syscall.EROFS:  "mount it writable",
		syscall.EACCES: fmt.Sprintf("let uid %d write there", os.Getuid()),
		syscall.EIO:    "set another configPath",
	} {
		err := claimError("/c", &fs.PathError{Op: "open", Path: "/c/agent.lock", Err: errno})
		if !strings.Contains(err.Error(), want) || !errors.Is(err, errno) {
			t.Errorf("%v, want advice %q", err, want)
		}
	}
}

// A lock file that another user may have written, or that is a link, is refused, and the link's target stays unchanged.
func TestAForgedLockFile(t *testing.T) {
	for name, forge := range map[string]func(lock, other string) error{
		"a link":          func(lock, other string) error { return os.Symlink(other, lock) },
		"another name":    func(lock, other string) error { return os.Link(other, lock) },
		"others write it": func(lock, _ string) error { return errors.Join(os.WriteFile(lock, nil, 0o600), os.Chmod(lock, 0o666)) },
		"a pipe":          func(lock, _ string) error { return syscall.Mkfifo(lock, 0o600) },
	} {
		dir := t.TempDir()
		other := filepath.Join(t.TempDir(), "other")
		if err := errors.Join(os.WriteFile(other, []byte("precious"), 0o600), forge(filepath.Join(dir, lockName), other)); err != nil {
			t.Fatal(err)
		}
		if slot, err := Claim(dir, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: claimed", name)
			slot.Release()
		}
		if text, err := os.ReadFile(other); string(text) != "precious" {
			t.Errorf("%s: the other file is %q, %v", name, text, err)
		}
	}
}

// No write of the agent to its slot follows a link that another user has put there.
func TestFilesFollowNoLinks(t *testing.T) {
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{lockName, "envoy-rev0.json"} {
		if err := os.Symlink(victim, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := Claim(dir, slog.New(slog.DiscardHandler)); err == nil {
		t.Errorf("a slot whose %s is a link is claimed: %s", lockName, s.Dir())
	}
	if err := writeFile(filepath.Join(dir, "envoy-rev0.json"), "{}"); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
		t.Errorf("the file that links lead to has %q, %v", text, err)
	}
}
