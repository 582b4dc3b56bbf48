package footprint

import (
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	gcPercent = 25
	slack     = 5 * time.Millisecond // of timers; the agent's timers run for seconds
)

// Shrink performs all steps. fork runs its argument on the thread that forks Envoys, so that this thread's timers stay
// exact. A step that the kernel refuses is skipped, since nothing depends on it.
func Shrink(fork func(func())) {
	debug.SetGCPercent(gcPercent)
	debug.FreeOSMemory() // memory that only the start needed
	runtime.GOMAXPROCS(1)
	relax(fork)
	DropText() // Keep repeats it at each interval
}

// relax sets the slack on every thread, also on Go's monitor thread, which sleeps more often than all others together.
func relax(fork func(func())) {
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, uintptr(slack.Nanoseconds()), 0)
	fork(func() {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // back to the thread's own default
	})
}
