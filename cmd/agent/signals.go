package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// signalled returns a context that stop or the first SIGTERM or SIGINT ends, and a channel that receives each later
// signal. A SIGINT that was ignored when the agent was started, as a shell's & does, stays ignored.
func signalled(ctx context.Context) (_ context.Context, stop func(), _ <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	signals, hurry := make(chan os.Signal, 4), make(chan struct{}, 4)
	signal.Notify(signals, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGINT) {
		signal.Notify(signals, syscall.SIGINT)
	}
	go func() {
		<-signals
		cancel()
		for range signals {
			hurry <- struct{}{}
		}
	}()
	return ctx, cancel, hurry
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
