package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// An Envoy that crashes is back though the disk and the shared memory are full, its binary was replaced by rubbish, and at
// last nothing can be made in configPath any more. When all of that has gone, the next handover works.
func TestCrashNeedsNothingButMemory(t *testing.T) {
	t.Parallel()
	lab.InMountNamespace(t, func(t *testing.T) {
		dir, binary := lab.ShortDir(t), filepath.Join(lab.ShortDir(t), "envoy")
		lab.MountTmpfs(t, dir, "size=256k,mode=700", 0) // of the agent alone: it works in configPath itself
		lab.MountTmpfs(t, "/dev/shm", "size=64k", 0)
		if output, err := exec.Command("cp", lab.Envoy(), binary).CombinedOutput(); err != nil {
			t.Fatalf("copy Envoy: %v: %s", err, output)
		}
		s := startStandalone(t, "--configPath", dir, "--binaryPath", binary)
		for _, blow := range []struct {
			name   string
			strike func()
			log    string
		}{
			{"the disk is full", func() {
				keepOpen(t, filepath.Join(dir, "*.json"))
				lab.Fill(t, filepath.Join(dir, "ballast"))
			}, "bootstrap not written: Envoy gets it in memory"},
			{"the shared memory is full", func() {
				keepOpen(t, "/dev/shm/envoy_*")
				lab.Fill(t, "/dev/shm/ballast")
			}, "no hot restart: handovers are side by side"},
			{"the binary is rubbish", func() {
				s.must(os.WriteFile(binary+"~", []byte("rubbish"), 0o755))
				s.must(os.Rename(binary, binary+".good"))
				s.must(os.Rename(binary+"~", binary))
			}, "the Envoy that served last is started"},
			{"configPath is read-only", func() {
				s.must(unix.Mount("tmpfs", dir, "tmpfs", syscall.MS_RDONLY, ""))
			}, "sockets are in another directory"},
		} {
			t.Log(blow.name)
			blow.strike()
			pid := s.pid("serving")
			s.must(syscall.Kill(pid, syscall.SIGKILL))
			s.must(s.awaitStatus(lab.StopLimit, "another process", func(a agentStatus) bool {
				return a.servedByAnother(pid)
			}))
			s.must(s.awaitRevision(1, lab.StopLimit))
			s.must(s.AwaitLog(blow.log))
		}
		s.must(unix.Unmount(dir, unix.MNT_DETACH))
		s.must(os.Remove("/dev/shm/ballast"))
		s.must(os.Remove(filepath.Join(dir, "ballast")))
		s.must(os.Rename(binary+".good", binary))
		s.handOver(2)
	})
}

// keepOpen opens the files that match, so that they keep their room when they are removed.
func keepOpen(t *testing.T, pattern string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
	}
}
