package application

import (
	"os"
	"os/signal"
	"syscall"
)

// Signals returns the signals that can be forwarded: not KILL and STOP, which no process can catch, nor those that
// concern only the process that receives them: its faults, its children, its timers, its terminal.
func Signals() []os.Signal {
	out := []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGTERM, syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGWINCH, syscall.SIGIO, syscall.SIGPWR,
	}
	const firstRealTime, lastRealTime = 35, 64 // three below are the C libraries' own, which Go does not allow to catch
	for s := syscall.Signal(firstRealTime); s <= lastRealTime; s++ {
		out = append(out, s)
	}
	return out
}

// Catch returns a channel of Signals. Signals that are ignored stay ignored, also in the application, as nohup and a
// shell's & require. Go reports this for HUP and INT only; since a shell's & ignores INT and QUIT together, Catch
// ignores QUIT if INT is ignored.
func Catch() (signals <-chan os.Signal, stop func()) {
	if signal.Ignored(syscall.SIGINT) {
		signal.Ignore(syscall.SIGQUIT)
	}
	caught := make(chan os.Signal, 16) // more than arrive before they are passed on
	for _, s := range Signals() {
		if !signal.Ignored(s) {
			signal.Notify(caught, s)
		}
	}
	return caught, func() { signal.Stop(caught) }
}
