package main

import (
	"io"

	"github.com/pilotlight/pilotlight/agent/lossy"
)

// command is one invocation: everything that it takes from the process it runs in.
type command struct {
	args           []string
	environ        []string
	stdout, stderr io.Writer
	said           *lossy.Writer   // to stderr, for all that the agent itself says
	fork           func(func())    // runs its argument on the main thread
	stop           func()          // does what the first signal to stop does; again it does nothing
	hurry          <-chan struct{} // each signal to stop after the first
}
