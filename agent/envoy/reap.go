package envoy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/agent/procnet"
)

// Reaper reaps the orphans that the kernel gives to this process. PID 1 gets all orphans of its pid namespace.
//
//	SIGCHLD ─▶ look ─┬─ no zombie ─▶ wait for the next
//	              ▲  └─ zombies: those that stay for patience looks are foreign ─▶ wait4
//	              └────── again after lookInterval
//
// It never calls wait4 for any child (pid -1), since that would take the exit status away from os/exec, which waits for each
// child that the agent has started. A zombie that os/exec has not reaped for some time was not started by the agent. By
// this rule the Reaper also leaves alone a child that exits before its pid is known, or that is no epoch, such as
// --mode validate.
type Reaper struct {
	Own func(pid int) bool // reports children that are never reaped here; nil for none
	Log *slog.Logger

	list func() ([]int, error) // of zombies; nil for the kernel's own
}

// A zombie of the agent's own children lasts microseconds. Looks are counted instead of time, since time jumps in an
// agent that was stopped and continued.
const (
	lookInterval = 100 * time.Millisecond
	patience     = 5
	listAgain    = time.Second // after the children could not be listed
)

// Run reaps until ctx ends. Each value of sigchld means that some child may have ended; SIGCHLDs coalesce, so a
// buffer of one is enough.
func (r *Reaper) Run(ctx context.Context, sigchld <-chan os.Signal) error {
	again := time.NewTimer(0) // for zombies that exist already
	defer again.Stop()
	if r.list == nil {
		r.list = zombies
	}
	looks := map[int]int{} // at each zombie
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-sigchld:
			if len(looks) > 0 {
				continue // the timer runs
			}
			again.Stop()
		case <-again.C:
		}
		next, err := r.look(looks)
		if err != nil {
			r.Log.Warn("orphans not reaped", "err", err)
		}
		if looks = next; len(looks) > 0 {
			again.Reset(lookInterval)
		} else if err != nil { // there may be zombies, and no further signal would come for them
			again.Reset(listAgain)
		}
	}
}

// look counts the zombies, reaps those that no other code waits for, and returns those that are left.
func (r *Reaper) look(before map[int]int) (map[int]int, error) {
	zombies, err := r.list()
	looks := map[int]int{}
	for _, pid := range zombies {
		looks[pid] = before[pid] + 1
		if looks[pid] < patience || r.Own != nil && r.Own(pid) {
			continue
		}
		switch reaped, failed := unix.Wait4(pid, nil, unix.WNOHANG, nil); {
		case reaped == pid:
			delete(looks, pid)
			r.Log.Debug("orphan reaped", "pid", pid)
		case failed != nil && failed != unix.ECHILD: // ECHILD: reaped already
			err = errors.Join(err, fmt.Errorf("wait for %d: %w", pid, failed))
		}
	}
	return looks, err
}

// zombies lists the ended children of this process. It calls waitid first, which most often returns that there are none
// and saves a walk of /proc. That call cannot return the list: while the first zombie stays, it returns no other.
func zombies() ([]int, error) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if err == unix.ECHILD || err == nil && info.Signo == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask for ended children: %w", err)
	}
	names, err := processNames()
	self := os.Getpid()
	var out []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue // not a process
		}
		if facts, err := procnet.ReadStat(pid); err == nil && facts.Parent == self && facts.Ended() {
			out = append(out, pid)
		}
	}
	return out, err
}

func processNames() ([]string, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	return proc.Readdirnames(-1)
}
