package agent

import (
	"fmt"
	"syscall"
)

// Proxy runs Envoy, one epoch at a time.
type Proxy interface {
	// Run starts the process of an epoch and blocks until it is reaped and its files are gone. It sends the process
	// every signal that abortCh carries, and calls live once the process serves, unless it ends before.
	Run(epoch int, abortCh <-chan syscall.Signal, live func()) Exit
}

// Exit is how an epoch ended.
type Exit struct {
	Code   int            // exit status; -1 when a signal ended the process, or it never started
	Signal syscall.Signal // that signal, else 0
	Reason string         // Envoy's last words, or why it could not be started; one line, may be empty
}

// String says it in a few words: `killed by signal 9 (killed)`, `exit status 1: cannot bind '127.0.0.1:80'`.
func (e Exit) String() string {
	what := fmt.Sprintf("exit status %d", e.Code)
	switch {
	case e.Signal != 0:
		what = fmt.Sprintf("killed by signal %d (%s)", e.Signal, e.Signal)
	case e.Code < 0:
		what = "not started"
	}
	if e.Reason == "" {
		return what
	}
	return what + ": " + e.Reason
}

// GaveUp is why the supervisor ended without being asked to.
type GaveUp struct {
	Exit     Exit // the last
	Attempts int  // starts that failed in a row
	Refused  bool // Envoy never served and refused its own configuration
}

func (g *GaveUp) Error() string {
	if g.Refused {
		return fmt.Sprintf("Envoy refuses its configuration: %s", g.Exit)
	}
	return fmt.Sprintf("Envoy could not be kept alive, gave up after %d failures: %s", g.Attempts, g.Exit)
}
