package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// An upgrade keeps the same Envoy whatever became of the lock file, and makes the file as it was.
func TestUpgradeAfterSomebodyTouchedTheLock(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	lock := filepath.Join(s.ConfigPath, "agent.lock")
	load, pid := s.lightLoad(), s.pid("serving")
	var others *os.File // of somebody who opened the file while he could
	for i, test := range []struct {
		name  string
		touch func() error
	}{
		{"others may write to it", func() (err error) {
			s.must(os.Chmod(lock, 0o664))
			others, err = os.OpenFile(lock, os.O_RDWR, 0)
			return err
		}},
		{"its owner may not", func() error { return os.Chmod(lock, 0o400) }},
		{"another name", func() error { return os.Link(lock, filepath.Join(t.TempDir(), "backup")) }},
		{"another file behind a link", func() error {
			s.must(os.Rename(lock, filepath.Join(s.ConfigPath, "moved")))
			s.must(os.Symlink("moved", lock))
			return nil
		}},
		{"removed", func() error { return os.Remove(lock) }},
		{"empty", func() error { return os.Truncate(lock, 0) }},
		{"half-written", func() error { return os.Truncate(lock, 40) }},
		{"rubbish", func() error { return os.WriteFile(lock, []byte(`{"agent": 1, "children": [{"pid": 1}]}`), 0o600) }},
	} {
		if err := test.touch(); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		s.Signal(syscall.SIGUSR2)
		s.upgraded(i + 1)
		if _, err := others.WriteAt([]byte("{}"), 0); err != nil {
			t.Error(err)
		}
		if now := s.pid("serving"); now != pid {
			t.Errorf("%s: process %d serves, want still %d", test.name, now, pid)
		}
		info, err := os.Lstat(lock)
		if err != nil || info.Mode() != 0o600 || info.Sys().(*syscall.Stat_t).Nlink != 1 {
			t.Errorf("%s: the lock file is %v, %v", test.name, info, err)
		}
		if text, err := os.ReadFile(lock); err != nil || !strings.Contains(string(text), fmt.Sprintf(`"agent":%d,`, s.Pid)) || !strings.Contains(string(text), fmt.Sprintf(`"pid":%d,`, pid)) {
			t.Errorf("%s: the record is %s, %v", test.name, strings.TrimSpace(string(text)), err)
		}
	}
	s.must(others.Close())
	s.must(os.RemoveAll(filepath.Join(s.ConfigPath, "moved")))
	s.handOver(2)
	lab.Unharmed(t, load)
}
