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
	slack     = 5 * time.Millisecond // of timers, which count seconds here
)

// Shrink does all of it. fork runs its argument on the thread that forks Envoys, whose timers stay exact. A step that the
// kernel refuses is skipped, for nothing depends on it.
func Shrink(fork func(func())) {
	debug.SetGCPercent(gcPercent)
	debug.FreeOSMemory() // what the start needed and nothing will again
	runtime.GOMAXPROCS(1)
	relax(fork)
	DropText() // and once more each interval, see Keep
}

// relax gives every thread the slack, Go's monitor thread too, which naps more often than all others together.
func relax(fork func(func())) {
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, uintptr(slack.Nanoseconds()), 0)
	fork(func() {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // back to the thread's own default
	})
}
