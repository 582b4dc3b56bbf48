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

// An upgrade needs nothing but memory: the disk is full, the shared memory is, Envoy's binary was replaced by rubbish, and at last nothing
// can be made in configPath any more. Envoy serves on, and the image that has taken over starts the next one from what it was handed.
func TestUpgradeNeedsNothingButMemory(t *testing.T) {
	t.Parallel()
	lab.InMountNamespace(t, func(t *testing.T) {
		dir, binary := lab.ShortDir(t), filepath.Join(lab.ShortDir(t), "envoy")
		lab.MountTmpfs(t, dir, "size=256k,mode=700", 0)
		lab.MountTmpfs(t, "/dev/shm", "size=64k", 0)
		if output, err := exec.Command("cp", lab.Envoy(), binary).CombinedOutput(); err != nil {
			t.Fatalf("copy Envoy: %v: %s", err, output)
		}
		s := startStandalone(t, "--configPath", dir, "--binaryPath", binary)
		upgrades := 0
		for _, blow := range []struct {
			name   string
			strike func()
		}{
			{"the disk is full", func() {
				keepOpen(t, filepath.Join(dir, "*.json"))
				lab.Fill(t, filepath.Join(dir, "ballast"))
			}},
			{"the shared memory is full", func() {
				keepOpen(t, "/dev/shm/envoy_*")
				lab.Fill(t, "/dev/shm/ballast")
			}},
			{"the binary is rubbish", func() {
				s.must(os.WriteFile(binary+"~", []byte("rubbish"), 0o755))
				s.must(os.Rename(binary, binary+".good"))
				s.must(os.Rename(binary+"~", binary))
			}},
			{"configPath is read-only", func() {
				s.must(unix.Mount(dir, dir, "", unix.MS_BIND, ""))
				s.must(unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
			}},
		} {
			t.Log(blow.name)
			blow.strike()
			pid := s.pid("serving")
			load := s.lightLoad()
			for range 2 {
				s.Signal(syscall.SIGUSR2)
				upgrades++
				s.upgraded(upgrades)
			}
			lab.Unharmed(t, load)
			if now := s.pid("serving"); now != pid {
				t.Errorf("Envoy is process %d, was %d", now, pid)
			}
			s.must(syscall.Kill(pid, syscall.SIGKILL))
			s.must(s.awaitStatus(lab.StopLimit, "another process", func(a agentStatus) bool {
				return a.servedByAnother(pid)
			}))
			s.must(s.awaitRevision(1, lab.StopLimit))
		}
		s.must(unix.Unmount(dir, unix.MNT_DETACH))
		s.must(os.Remove("/dev/shm/ballast"))
		s.must(os.Remove(filepath.Join(dir, "ballast")))
		s.must(os.Rename(binary+".good", binary))
		s.handOver(2)
	})
}
