package agent

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// Config is the configuration of an epoch. The supervisor compares two of them with ==.
type Config struct {
	// Bootstrap is the text itself, so that a restart has it when the files have changed since
	Bootstrap string `json:"Bootstrap"`
	Format    string `json:"Format"` // of the text: "json" or "yaml"
	// Certificates identifies the certificates, where only a new epoch can load new ones; else empty
	Certificates string `json:"Certificates"`
	Binary       string `json:"Binary"` // identifies the Envoy binary: changes when the file does
}

// Proxy runs Envoy.
type Proxy interface {
	// Run starts the process of an epoch, or takes over the one that an earlier image of the agent has left, and blocks until it
	// is reaped and its files are gone. It carries out every order
	// that it receives from abortCh, and calls report with its observations; never after it has returned.
	Run(launch Launch, abortCh <-chan Order, report func(Report)) Exit
	// Check reports whether an epoch of config could run, and whether it could take over by hot restart.
	Check(ctx context.Context, config Config) (hot bool, err error)
	// Repair undoes the changes that a failed newcomer has made to its family.
	Repair(newcomer Launch) error
	// Rescue receives messages in place of a parent that died, until the given time, so that the newcomer does not abort.
	Rescue(ctx context.Context, parent Launch, until time.Time) error
}

// Order is a command to an epoch. A Signal is sent to the process unchanged.
type Order struct {
	Signal       syscall.Signal
	Drain        bool // close the listeners, and report Idle
	DrainInbound bool // let inbound connections end, still serving
	UntilIdle    bool // with DrainInbound: report Idle
	Open         bool // a newcomer that is held may take over
	Await        bool // a newcomer drains it: report Idle
	Leave        bool // leave the process as it is: Run returns, with Exit.Left
}

// Report is a change in the state of an epoch's process.
type Report string

const (
	Live       Report = "live"       // it serves, under its own epoch, with every listener of its parent
	Fit        Report = "fit"        // a newcomer that is held is fit to take over: it waits for the order Open
	News       Report = "news"       // it has got configuration, or its stream to discovery has begun or ended
	Incomplete Report = "incomplete" // another epoch of the same configuration would serve more
	Draining   Report = "draining"   // its Envoy has answered the order DrainInbound, or does not answer
	Idle       Report = "idle"       // nothing is in flight
	Hung       Report = "hung"       // it hangs and is to be killed
)

// Exit is how an epoch ended.
type Exit struct {
	Code   int            `json:"Code"`   // exit status; -1 when a signal ended the process, or it never started
	Signal syscall.Signal `json:"Signal"` // that signal, else 0
	// Reason is Envoy's last error message, or why it could not be started; one line, may be empty
	Reason string `json:"Reason"`
	// Blinded reports that a newcomer has closed the admin of its parent, which serves on without it.
	Blinded bool `json:"Blinded"`
	// Held is why a newcomer that was killed was not fit to take over until then; empty if it was, or had no parent
	Held   string `json:"Held"`
	Unseen bool   `json:"Unseen"` // the exit status is not known: the process ended while the agent was replaced
	Left   bool   `json:"Left"`   // it has not ended: the order Leave was carried out
}

// String returns a short text: `killed by signal 9 (killed)`, `exit status 1: cannot bind '127.0.0.1:80'`.
func (e Exit) String() string {
	what := fmt.Sprintf("exit status %d", e.Code)
	switch {
	case e.Signal != 0:
		what = fmt.Sprintf("killed by signal %d (%s)", e.Signal, e.Signal)
	case e.Unseen:
		what = "ended, its exit status is not known"
	case e.Code < 0:
		what = "not started"
	}
	if e.Reason == "" {
		return what
	}
	return what + ": " + e.Reason
}

// GaveUp is the reason why the supervisor ended by its own decision.
type GaveUp struct {
	Exit     Exit // the last one
	Attempts int  // starts that failed in a row
	Refused  bool // Envoy never served and refused its own configuration
}

func (g *GaveUp) Error() string {
	if g.Refused {
		return fmt.Sprintf("Envoy refuses its configuration: %s", g.Exit)
	}
	return fmt.Sprintf("Envoy could not be kept alive, gave up after %d failures: %s", g.Attempts, g.Exit)
}
