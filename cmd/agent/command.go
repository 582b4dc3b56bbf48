package main

import (
	"io"
	"os"
	"syscall"

	"github.com/pilotlight/pilotlight/agent/lossy"
)

// command is one invocation, with everything that it uses of its process.
type command struct {
	args            []string
	environ         []string
	stdout, stderr  io.Writer
	said            *lossy.Writer           // to stderr, for the agent's own log
	fork            func(func())            // runs its argument on the main thread
	stop            func()                  // acts like the first signal to stop; a second call does nothing
	hurry           <-chan struct{}         // each signal to stop after the first
	quit            <-chan struct{}         // each SIGQUIT
	settled         func() []syscall.Signal // waits until each signal that has come is dealt with, and returns those that a next image needs too
	hangUp, upgrade <-chan os.Signal        // each SIGHUP, each SIGUSR2; set by proxy
	runs            *bool                   // the proxy is run: what was handed over is received
	handed          string                  // by another image of the agent: see upgrade.Variable; empty for a start
}
