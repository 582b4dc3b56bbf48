package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A newcomer that waits for its parent's answer hears no signal but KILL. An agent that is killed then leaves neither.
func TestKilledWhileANewcomerWaits(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	parent := s.pid("serving")
	s.mutate = func(text string) string { // it takes its time before it asks for the listen sockets
		return strings.Replace(text, `"clusters": [`, `"clusters": [`+ballast(500), 1)
	}
	s.configure(2)
	newcomer := 0
	s.must(s.awaitStatus(handoverLimit, "a newcomer", func(a agentStatus) bool {
		if len(a.Epochs) == 2 && a.Epochs[1].Pid != 0 { // it was forked
			newcomer = a.Epochs[1].Pid
			s.Signal(syscall.SIGSTOP) // it would replace a frozen Envoy at once
			s.must(lab.Eventually(handoverLimit, func() error { return stopped(s.Pid) }))
			s.must(syscall.Kill(parent, syscall.SIGSTOP)) // before it could answer
		}
		return newcomer != 0
	}))
	s.must(lab.Eventually(handoverLimit, func() error { return waitsForMessage(newcomer) }))
	watch := lab.StartStopwatch()
	s.Signal(syscall.SIGKILL)
	_, err := s.Wait(lab.StopLimit)
	s.must(err)
	s.must(gone(lab.StopLimit, parent, newcomer))
	watch.Within(t, orphanLimit, "the end of a killed agent's Envoys")
}

// stopped returns nil once all threads of a process are stopped: each stops where it sees the signal.
func stopped(pid int) error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return err
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if state := string(text[strings.LastIndexByte(string(text), ')')+1:]); err == nil && !strings.HasPrefix(state, " T") {
			return fmt.Errorf("%s of process %d is not stopped: %.4s", thread, pid, state)
		}
	}
	return nil
}

// waitsForMessage returns nil while the main thread of a process is in recvmsg.
func waitsForMessage(pid int) error {
	call, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
	if err == nil && !strings.HasPrefix(string(call), fmt.Sprintf("%d ", unix.SYS_RECVMSG)) {
		err = fmt.Errorf("process %d is in system call %.20s", pid, call)
	}
	return err
}

// gone returns nil once none of these Envoys lives, and an error after a limit.
func gone(limit time.Duration, pids ...int) error {
	return lab.Eventually(limit, func() error {
		for _, pid := range pids {
			if lab.Alive(pid) {
				return fmt.Errorf("Envoy %d lives", pid)
			}
		}
		return nil
	})
}

// envoysIn lists the epochs that run on bootstraps of a directory.
func envoysIn(dir string) (pids []int) {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		if pid, err := strconv.Atoi(filepath.Base(process)); err == nil && runsIn(dir, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// runsIn reports whether a process is an epoch on a bootstrap of a directory.
func runsIn(dir string, pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.Contains(string(text), "--config-path\x00"+dir+"/envoy-rev") && lab.Alive(pid)
}
