package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// signalled returns a context that stop or the first SIGTERM, SIGINT or SIGQUIT ends, a channel that receives each later
// SIGTERM or SIGINT, and one that receives each SIGQUIT. A signal from the terminal that was ignored when the agent was
// started, as a shell's & does, stays ignored.
func signalled(ctx context.Context) (_ context.Context, stop func(), hurries, quits <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	signals, hurry, quit := make(chan os.Signal, 4), make(chan struct{}, 4), make(chan struct{}, 4)
	signal.Notify(signals, syscall.SIGTERM)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go func() {
		for first := true; ; first = false {
			switch s := <-signals; {
			case s == syscall.SIGQUIT:
				quit <- struct{}{}
			case !first:
				hurry <- struct{}{}
			}
			cancel()
		}
	}()
	return ctx, cancel, hurry, quit
}

// survivePipes makes a write to a pipe without a reader return an error instead of ending the agent. A child process
// has the signal's default action.
func survivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// hangUps returns a channel that receives each SIGHUP, on which the agent reads its files again, as services do. A
// SIGHUP that was ignored when the agent was started, as nohup does, stays ignored.
func hangUps() <-chan os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return nil
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	return hup
}
