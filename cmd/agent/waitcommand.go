package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
