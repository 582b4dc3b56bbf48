//go:build long

package agent

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Crowds at the agent's ports starve no probe, and an agent without a descriptor left blames nobody: Envoy stays.
func TestLongCrowds(t *testing.T) {
	s := startStandalone(t)
	pid := s.pid("serving")
	files := func() int {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Pid))
		s.must(err)
		return len(list)
	}
	quiet := files()
	var before unix.Rlimit
	s.must(unix.Prlimit(s.Pid, unix.RLIMIT_NOFILE, nil, &before))
	few := unix.Rlimit{Cur: uint64(quiet + 4), Max: before.Max}
	s.must(unix.Prlimit(s.Pid, unix.RLIMIT_NOFILE, &few, nil))
	for range 8 {
		var crowd []net.Conn
		for range 100 {
			for _, address := range []string{s.status, s.Admin} {
				conn, err := net.DialTimeout("tcp", address, time.Second)
				if err != nil {
					break // the kernel's queue is full
				}
				crowd = append(crowd, conn)
			}
		}
		deadline := time.Now().Add(1500 * time.Millisecond)
		for time.Now().Before(deadline) {
			_, err := lab.Get("http://" + s.address)
			s.must(err)
		}
		for _, conn := range crowd {
			conn.Close()
		}
	}
	s.must(unix.Prlimit(s.Pid, unix.RLIMIT_NOFILE, &before, nil))
	var crowd []net.Conn
	defer func() {
		for _, conn := range crowd {
			conn.Close()
		}
	}()
	probes, failed := 0, 0
	for range 13 {
		for range 70 {
			if conn, err := net.DialTimeout("tcp", s.status, time.Second); err == nil {
				crowd = append(crowd, conn)
			}
		}
		probes++
		if _, err := lab.Get("http://" + s.status + "/healthz/ready"); err != nil {
			t.Logf("probe: %v", err)
			failed++
		}
	}
	if failed > 0 {
		t.Errorf("%d of %d probes failed", failed, probes)
	}
	if now := s.pid("serving"); now != pid {
		t.Errorf("Envoy is process %d, want still %d:\n%s", now, pid, tail(s.Log(), 20))
	}
	t.Logf("%d files open at rest, %d beside the crowd", quiet, files())
}
