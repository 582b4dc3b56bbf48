package lab

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"
)

// Children lists the living children of a process. It reads every thread's list, since any thread may fork.
func Children(pid int) []int {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	var out []int
	for _, task := range tasks {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		for _, field := range strings.Fields(string(data)) {
			if child, err := strconv.Atoi(field); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

// Alive reports whether a process runs; it is false for a zombie.
func Alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The state follows the command's closing parenthesis.
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// RSS returns a process's resident memory in bytes, 0 when it has ended.
func RSS(pid int) int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}

// Addresses returns a prefix of loopback addresses, "127.87.12.", for one test only. It is random: two runs on one
// machine must not use the same addresses, since Envoys of one user share a port without an error.
func Addresses() string { return fmt.Sprintf("127.%d.%d.", 64+rand.IntN(160), 1+rand.IntN(254)) }

// Eventually calls condition until it returns nil, and returns its last error when the time is over. Between two calls passes a
// twentieth of the time that it has waited, at least 5 ms and at most 50: most conditions ask a program, and it needs a processor
// to answer.
func Eventually(limit time.Duration, condition func() error) error {
	began := time.Now()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		waited := time.Since(began)
		if waited > limit {
			return fmt.Errorf("not within %s: %w", limit, err)
		}
		time.Sleep(min(max(waited/20, 5*time.Millisecond), 50*time.Millisecond))
	}
}

// CPU returns the time that a process has spent on processors, to the nanosecond.
func CPU(pid int) (total time.Duration) {
	eachTask(pid, "schedstat", func(text string) {
		run, _, _ := strings.Cut(text, " ")
		nanoseconds, _ := strconv.ParseInt(run, 10, 64)
		total += time.Duration(nanoseconds)
	})
	return total
}

// Wakeups returns how often the threads of a process have gone to sleep by themselves and were woken.
func Wakeups(pid int) (total int64) {
	eachTask(pid, "status", func(text string) {
		_, rest, _ := strings.Cut(text, "\nvoluntary_ctxt_switches:")
		count, _, _ := strings.Cut(rest, "\n")
		n, _ := strconv.ParseInt(strings.TrimSpace(count), 10, 64)
		total += n
	})
	return total
}

// eachTask reads a file of each thread.
func eachTask(pid int, file string, read func(text string)) {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/%s", pid, task.Name(), file))
		read(string(data))
	}
}

// BaseID returns a base-id for hot restarts that no other run is likely to have.
func BaseID() int { return 1_000 + rand.IntN(2_000_000) }
