package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotlight/pilotlight/agent/application"
	"github.com/pilotlight/pilotlight/agent/client"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/internal/environ"
)

const waitLong = `Wait until the agent's proxy is ready, for a program that needs it from its first moment.

It asks the agent's status port, so it works in every container of a pod and on a host, for any user. While it waits
it says on stderr what blocks. Exit status: 0 ready; 1 not ready within --timeout, and what blocks since when; 2 a fault
of flags or environment; 128 + the signal that ended it.

With --shutdown it runs CMD once the proxy is ready, in its own place: CMD has its input, output, environment and
signals, and its exit status is CMD's (128 + the signal that ended it; 127 when it is not found, 126 when it cannot be
run). Afterwards wait stops the proxy, since without that a job never completes. It does so whatever ended the
command: also when the proxy was not ready within --timeout, or a signal came while waiting. If that fails, a line on
stderr says so, and the exit status stays.

CMD runs in a process group of its own and gets each signal once. As PID 1 wait buries orphans. A wait that is killed
(-9) leaves CMD and the proxy running. In a Kubernetes Job give the pod restartPolicy Never: a proxy that wait
stopped is not started again for a second try of CMD.`

const waitExample = `  agent wait --timeout 60s
  agent wait --shutdown -- /bin/migrate --all
  agent wait --url http://localhost:15021/healthz/ready --timeoutSeconds 60 --periodMillis 500`

func waitCommand(c command) *cobra.Command {
	w := &waiting{command: c}
	cmd := &cobra.Command{
		Use:     "wait [flags] [--shutdown -- CMD [ARG...]]",
		Short:   "Wait until the proxy is ready; with --shutdown run a program then, and stop the proxy after it",
		Long:    waitLong,
		Example: waitExample,
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			w.argv, w.stdin = args, cmd.InOrStdin()
			if err := w.resolve(); err != nil {
				return err
			}
			return w.run(cmd.Context())
		},
	}
	w.register(cmd.Flags())
	return cmd
}

func (w *waiting) register(f *pflag.FlagSet) {
	f.SortFlags = false
	f.SetInterspersed(false) // flags after CMD belong to CMD
	w.target = statusTarget(f)
	f.StringVar(&w.url, "url", "", "ask this URL instead, where any answer 200 is ready")
	f.DurationVar(&w.timeout, "timeout", 0, "give up after this time, 0 for never")
	f.DurationVar(&w.interval, "interval", 500*time.Millisecond, "ask this often, and more quickly at first")
	f.DurationVar(&w.requestTimeout, "requestTimeout", time.Second, "how long one question may take")
	f.BoolVar(&w.shutdown, "shutdown", false, "run CMD when the proxy is ready, and stop the proxy when CMD has ended")
	f.StringVar(&w.onTimeout, "onTimeout", onTimeoutFail,
		"what --shutdown does when the proxy is not ready in time: fail or start")
	f.Var(units{&w.timeout, time.Second}, "timeoutSeconds", "--timeout as pilot-agent has it")
	f.Var(units{&w.interval, time.Millisecond}, "periodMillis", "--interval as pilot-agent has it")
	f.Var(units{&w.requestTimeout, time.Millisecond}, "requestTimeoutMillis", "--requestTimeout as pilot-agent has it")
}

// units is a duration that is written as a whole number of a unit.
type units struct {
	*time.Duration
	unit time.Duration
}

func (u units) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return fmt.Errorf("want a whole number, such as 60")
	}
	*u.Duration = time.Duration(n) * u.unit
	return nil
}

func (u units) String() string { return "" } // no default of its own
func (u units) Type() string   { return "int" }

// waiting is the command with its flags.
type waiting struct {
	command                           command
	target                            *target
	url                               string
	timeout, interval, requestTimeout time.Duration
	shutdown                          bool
	onTimeout                         string
	argv                              []string
	stdin                             io.Reader

	agent *client.Client // set by resolve
	ready func(context.Context) error
}

// The values of --onTimeout.
const (
	onTimeoutFail  = "fail"
	onTimeoutStart = "start"
)

// resolve reports every fault of the usage at once.
func (w *waiting) resolve() error {
	var faults *multierror.Error
	check := func(ok bool, flag string, given any, allowed string) {
		if !ok {
			faults = multierror.Append(faults, fmt.Errorf("--%s %v: want %s", flag, given, allowed))
		}
	}
	check(w.timeout >= 0, "timeout", w.timeout, "0s for never, or more")
	check(w.interval > 0, "interval", w.interval, "more than 0s")
	check(w.requestTimeout > 0, "requestTimeout", w.requestTimeout, "more than 0s")
	check(w.onTimeout == onTimeoutFail || w.onTimeout == onTimeoutStart, "onTimeout", w.onTimeout, "fail or start")
	switch {
	case w.shutdown && len(w.argv) == 0:
		err := errors.New("--shutdown: want the program to run, as in agent wait --shutdown -- CMD ARG")
		faults = multierror.Append(faults, err)
	case !w.shutdown && len(w.argv) > 0:
		faults = multierror.Append(faults, fmt.Errorf("arguments %q: want none without --shutdown", w.argv))
	}
	agent, err := w.target.client(environ.Parse(w.command.environ), w.requestTimeout)
	if err != nil {
		return usage(multierror.Append(faults, err))
	}
	w.agent, w.ready = agent, agent.Ready
	if w.url != "" {
		base, err := url.Parse(w.url)
		is := err == nil && (base.Scheme == "http" || base.Scheme == "https") && base.Host != ""
		check(is, "url", w.url, "http://host:port/path")
		w.ready = (&client.Client{Base: base, Setting: "--url", Timeout: w.requestTimeout}).Answers
	}
	return usage(faults)
}

func (w *waiting) run(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx) // this function decides which signals end the wait
	survivePipes()
	signals, stop := application.Catch()
	defer stop()
	if !w.shutdown {
		return w.untilReady(ctx, signals)
	}
	if os.Getpid() == 1 {
		reaping, cancel := context.WithCancel(ctx)
		var reaper sync.WaitGroup
		reaper.Go(func() { envoy.ReapOrphans(reaping, newLogger(w.command.said, "warn", "text")) })
		defer reaper.Wait()
		defer cancel()
	}
	err := w.untilReady(ctx, signals)
	if late := (*notInTime)(nil); errors.As(err, &late) && w.onTimeout == onTimeoutStart {
		fmt.Fprintln(w.command.said, "agent: start all the same:", err)
		err = nil
	}
	if err == nil {
		err = w.runApplication(signals)
	}
	w.quit(ctx)
	return err
}

// runApplication runs the application, and returns nil if it has ended with status 0.
func (w *waiting) runApplication(signals <-chan os.Signal) error {
	status, err := application.Application{
		Argv: w.argv, Env: w.command.environ, Stdin: w.stdin, Stdout: w.command.stdout, Stderr: w.command.stderr,
	}.Run(signals)
	if err != nil || status != 0 {
		return &exit{status, err}
	}
	return nil
}

// notInTime is the error for a proxy that is not ready in time, with the reason.
type notInTime struct {
	timeout time.Duration
	blocker error
}

func (n *notInTime) Error() string { return fmt.Sprintf("not within %s: %v", n.timeout, n.blocker) }

// untilReady returns nil when the proxy is ready, *notInTime, or *exit for a signal that ends the command.
func (w *waiting) untilReady(ctx context.Context, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := narrator{from: time.Now()}
	done := make(chan error, 1)
	go func() {
		done <- client.Patience{Interval: w.interval, Limit: w.timeout}.Until(ctx, w.ready, func(blocker error) {
			if n.tells(blocker, time.Now()) {
				fmt.Fprintln(w.command.said, "agent: waiting:", blocker)
			}
		})
	}()
	for {
		select {
		case s := <-signals:
			if s := s.(syscall.Signal); ends(s) {
				cancel()
				err := fmt.Errorf("%v while waiting", s)
				if blocker := <-done; blocker != nil {
					err = fmt.Errorf("%w: %w", err, blocker)
				}
				return &exit{application.SignalStatus(s), err}
			}
		case blocker := <-done:
			if blocker != nil {
				return &notInTime{w.timeout, blocker}
			}
			return nil
		}
	}
}

// quitLimit is how long to retry the request to stop: long enough for an agent that is being started again, short
// enough for one that has ended. No signal shortens it, since a job whose agent does not stop would never complete.
const quitLimit = 3 * time.Second

// quit requests the agent to stop. A failure has no effect.
func (w *waiting) quit(ctx context.Context) {
	patience := client.Patience{Interval: w.interval, Limit: quitLimit}
	if failure := patience.Until(ctx, w.agent.Quit, func(error) {}); failure != nil {
		fmt.Fprintln(w.command.said, "agent: the proxy could not be stopped:", failure)
	}
}

// ends reports whether a signal ends the wait. The other signals are for an application, which is not running.
func ends(s syscall.Signal) bool {
	return s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGHUP || s == syscall.SIGQUIT
}

// narrator decides which blockers to print.
type narrator struct {
	from time.Time // when the wait began
	last string    // the last line
}

// quietLimit is how long wait prints nothing: most waits end before.
const quietLimit = 2 * time.Second

func (n *narrator) tells(blocker error, now time.Time) bool {
	if now.Sub(n.from) < quietLimit || blocker.Error() == n.last {
		return false
	}
	n.last = blocker.Error()
	return true
}
