package agent

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// endsWith runs an agent that cannot work and checks its status and last line.
func (s *standalone) endsWith(code int, want string) {
	s.t.Helper()
	got, err := s.Wait(30 * time.Second)
	s.must(err)
	if last := tail(s.Log(), 1); got != code || !strings.Contains(last, want) {
		s.t.Errorf("exit status %d, last line %q; want %d and %q", got, last, code, want)
	}
}

// A configPath that cannot be written is a clear error.
func TestConfigPathUnusable(t *testing.T) {
	t.Parallel()
	lab.InMountNamespace(t, func(t *testing.T) {
		full, frozen := lab.ShortDir(t), lab.ShortDir(t)
		lab.MountTmpfs(t, full, "size=64k", 0)
		lab.Fill(t, filepath.Join(full, "ballast"))
		lab.MountTmpfs(t, frozen, "size=64k", syscall.MS_RDONLY)
		for path, want := range map[string]string{
			full:   "no space left on device; free some space there",
			frozen: "read-only file system; mount it writable",
		} {
			s := newStandalone(t)
			s.launch("--configPath", path)
			s.endsWith(1, want)
		}
	})
}

// A disk that becomes full later harms nobody: what runs serves on, and when there is room the next handover works.
func TestDiskFillsUp(t *testing.T) {
	t.Parallel()
	lab.InMountNamespace(t, func(t *testing.T) {
		dir := lab.ShortDir(t)
		lab.MountTmpfs(t, dir, "size=256k", 0)
		s := startStandalone(t, "--configPath", dir)
		ballast := filepath.Join(dir, "ballast")
		lab.Fill(t, ballast)
		s.configure(2)
		s.must(s.awaitStatus(30*time.Second, "a refusal", func(a agentStatus) bool {
			return a.Refusal != nil && strings.Contains(a.Refusal.Reason, "no space left on device")
		}))
		s.must(s.awaitRevision(1, time.Second))
		s.must(os.Remove(ballast))
		s.handOver(3)
	})
}

// Without usable shared memory there is no hot restart: it is said, and handovers are side by side.
func TestNoSharedMemory(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string]uintptr{"unwritable": syscall.MS_RDONLY, "full": 0} {
		t.Run(name, func(t *testing.T) {
			lab.InMountNamespace(t, func(t *testing.T) {
				lab.MountTmpfs(t, "/dev/shm", "size=4k,nr_inodes=1", flags)
				s := startStandalone(t)
				s.handOver(2)
				s.must(s.AwaitLog("no hot restart: handovers are side by side"))
				s.must(s.AwaitLog(`why=side-by-side`))
			})
		})
	}
}

// With next to no file descriptors Envoy cannot start: it is said in its words, and in bounded time.
func TestTooFewFileDescriptors(t *testing.T) {
	t.Parallel()
	s := newStandalone(t)
	process, err := lab.Start(lab.Spec{Name: "few", Dir: lab.ShortDir(t), Argv: []string{
		"sh", "-c", `ulimit -n 16; exec "$@"`, "sh",
		lab.Program("agent"), "proxy", "--serviceregistry", "Other", "--ip", "127.0.0.1", "--binaryPath", lab.Envoy(), "--proxyAdminPort", "0",
		"--statusPort", "0", "--configPath", filepath.Join(lab.ShortDir(t), "proxy"), "--customConfigFile", s.config,
		"--restartBudget", "2", "--restartBackOff", "10ms",
	}})
	s.must(err)
	s.Sidecar = &lab.Sidecar{Process: process}
	defer process.Stop(0)
	code, err := s.Wait(30 * time.Second)
	s.must(err)
	if log := s.Log(); code == 0 || !strings.Contains(strings.ToLower(log), "too many open files") {
		t.Errorf("exit status %d; want not 0, and the cause in:\n%s", code, tail(log, 30))
	}
}
