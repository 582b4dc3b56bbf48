package agent

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// Config is what an epoch runs. Two that are equal are the same to the supervisor.
type Config struct {
	Bootstrap    string // the text itself, so that a restart has it when the files have changed since
	Format       string // of the text: "json" or "yaml"
	Certificates string // which certificates, where only a new epoch takes new ones; else empty
	Binary       string // which Envoy: changes when the file does
}

// Proxy runs Envoy.
type Proxy interface {
	// Run starts the process of an epoch and blocks until it is reaped and its files are gone. It obeys every order
	// that abortCh carries, and calls report for what it sees; never after it has returned.
	Run(launch Launch, abortCh <-chan Order, report func(Report)) Exit
	// Check says whether an epoch of config could run, and whether it could take over by hot restart.
	Check(ctx context.Context, config Config) (hot bool, err error)
	// Repair undoes what a newcomer that failed has done to its family.
	Repair(newcomer Launch) error
	// Rescue stands in for a parent that died, until then, so that its newcomer lives on.
	Rescue(ctx context.Context, parent Launch, until time.Time) error
}

// Order is what an epoch shall do. A Signal is sent as it is.
type Order struct {
	Signal       syscall.Signal
	Drain        bool // close the listeners, and report Idle
	DrainInbound bool // let inbound connections end, still serving
	UntilIdle    bool // with DrainInbound: report Idle
	Await        bool // a newcomer has told it to drain: report Idle
}

// Report is what an epoch's process does.
type Report string

const (
	Live Report = "live" // it serves, at its own epoch, with every listener of its parent
	Idle Report = "idle" // nothing is in flight
	Hung Report = "hung" // it is stopped, or does not answer and does not work either
)

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
