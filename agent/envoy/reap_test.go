package envoy

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/agent/procnet"
)

// adopt makes this process a subreaper: like PID 1 it receives the orphans of its descendants.
func adopt(t *testing.T) {
	t.Helper()
	must(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	t.Cleanup(func() { must(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)) })
}

// reaping runs a Reaper until the test ends.
func reaping(t *testing.T, r Reaper) {
	t.Helper()
	sigchld := make(chan os.Signal, 1)
	signal.Notify(sigchld, syscall.SIGCHLD)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx, sigchld) })
	t.Cleanup(func() { cancel(); running.Wait(); signal.Stop(sigchld) })
}

// orphans returns pids whose parent has ended, and which end now. While it lived they read from a pipe that only this
// process writes to: a child that ended earlier would have been reaped by the shell.
func orphans(t *testing.T, n int) []int {
	t.Helper()
	held, hold, err := os.Pipe()
	must(t, err)
	defer held.Close()
	defer hold.Close()
	shell := exec.Command("sh", "-c", "for i in $(seq "+strconv.Itoa(n)+"); do cat <&3 >/dev/null 2>&1 & echo $!; done")
	shell.ExtraFiles = []*os.File{held}
	out, err := shell.Output()
	must(t, err)
	var pids []int
	for _, field := range strings.Fields(string(out)) {
		pid, err := strconv.Atoi(field)
		must(t, err)
		pids = append(pids, pid)
	}
	if len(pids) != n {
		t.Fatalf("the shell named %d orphans, want %d: %q", len(pids), n, out)
	}
	return pids
}

func exists(pid int) bool { _, err := procnet.ReadStat(pid); return err == nil }

func TestReaperBuriesOrphansAndStealsNothing(t *testing.T) {
	adopt(t)
	own := exec.Command("sleep", "0.01")
	must(t, own.Start())
	reaping(t, Reaper{
		Own: func(pid int) bool { return pid == own.Process.Pid },
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	// A zombie of an own child comes first and stays: it must neither be reaped nor hide the others.
	await(t, "own child is a zombie", func() bool {
		facts, err := procnet.ReadStat(own.Process.Pid)
		return err == nil && facts.State == 'Z'
	})
	for _, pid := range orphans(t, 5) {
		await(t, "orphan "+strconv.Itoa(pid)+" is reaped", func() bool { return !exists(pid) })
	}
	if err := own.Wait(); err != nil {
		t.Errorf("own child: %v, want its status 0", err)
	}
}

// Without Own each child is protected by its goroutine in Wait alone.
func TestReaperLeavesShortLivedChildrenToExec(t *testing.T) {
	reaping(t, Reaper{Log: slog.New(slog.DiscardHandler)})
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for range 10 {
				if err := exec.Command("sh", "-c", "exit 7").Run(); err == nil || err.Error() != "exit status 7" {
					t.Errorf("a short-lived child: %v, want exit status 7", err)
				}
			}
		})
	}
	running.Wait()
}

func TestReaperBuriesOrphansFromBefore(t *testing.T) {
	adopt(t)
	pids := orphans(t, 2)
	for _, pid := range pids {
		await(t, "orphan is a zombie", func() bool {
			facts, err := procnet.ReadStat(pid)
			return err == nil && facts.State == 'Z'
		})
	}
	reaping(t, Reaper{Log: slog.New(slog.DiscardHandler)})
	for _, pid := range pids {
		await(t, "orphan is reaped", func() bool { return !exists(pid) })
	}
}
