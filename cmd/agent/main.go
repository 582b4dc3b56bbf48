package main

import (
	"context"
	"os"
	"runtime"

	"github.com/pilotlight/pilotlight/agent/upgrade"
)

// The main goroutine keeps the process's main thread, which ends with the process and not before: Envoy's
// parent-death signal is tied to the thread that forked it.
func init() { runtime.LockOSThread() }

func main() {
	handed := os.Getenv(upgrade.Variable)
	_ = os.Unsetenv(upgrade.Variable) // Envoy has no use for it
	if handed != "" {
		upgrade.At(upgrade.Started)
	}
	forks := make(chan func())
	code := make(chan int)
	go func() {
		code <- execute(context.Background(), command{
			args:    os.Args[1:],
			environ: os.Environ(),
			stdout:  os.Stdout,
			stderr:  os.Stderr,
			handed:  handed,
			fork:    func(f func()) { forked := make(chan struct{}); forks <- func() { f(); close(forked) }; <-forked },
		})
	}()
	for {
		select {
		case f := <-forks:
			f()
		case c := <-code:
			os.Exit(c)
		}
	}
}
