package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// signalled returns a context that stop or the first SIGTERM, SIGINT or SIGQUIT ends, a channel that receives each later
// SIGTERM or SIGINT, and one that receives each SIGQUIT. A signal from the terminal that was ignored when the agent was
// started, as a shell's & does, stays ignored.
//
// settled waits until each signal that has come is dealt with, and returns what the context and the channels have of them: those are for
// another image of the agent.
func signalled(ctx context.Context) (_ context.Context, stop func(), hurries, quits <-chan struct{}, settled func() []syscall.Signal) {
	ctx, cancel := context.WithCancel(ctx)
	signals, hurry, quit := make(chan os.Signal, 4), make(chan struct{}, 4), make(chan struct{}, 4)
	signal.Notify(signals, syscall.SIGTERM)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT} {
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
	return ctx, cancel, hurry, quit, func() (out []syscall.Signal) {
		probe := make(chan os.Signal, 1)
		signal.Notify(probe, syscall.SIGTERM)
		signal.Stop(probe) // waits until what has come is delivered
		for len(signals) > 0 {
			runtime.Gosched()
		}
		switch {
		case len(quit) > 0:
			return []syscall.Signal{syscall.SIGQUIT}
		case ctx.Err() != nil:
			return []syscall.Signal{syscall.SIGTERM}
		}
		return nil
	}
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

// upgradeSignals returns a channel that receives each SIGUSR2, on which the agent is replaced by another image of itself.
func upgradeSignals() <-chan os.Signal {
	upgrades := make(chan os.Signal, 1)
	signal.Notify(upgrades, syscall.SIGUSR2)
	return upgrades
}
