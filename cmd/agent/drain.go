package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/internal/environ"
	"github.com/pilotlight/pilotlight/internal/setting"
)

const drainLong = `Take the proxy out of service, as a preStop hook: readiness is false at once, and Envoy closes each inbound connection with its next
answer (Connection: close, GOAWAY), while it goes on accepting and serving. It returns once Envoy drains.

Native sidecars run it when their Pod begins to end, since the kubelet stops them only after the program. POST /undrain at the
status port puts the proxy back into service.

Exit status: 0 Envoy drains, or will as soon as one serves; 1 the agent did not take the command, which stderr explains; 2 a fault of flags or environment.`

func drainCommand(c command) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:     "drain",
		Short:   "Take the proxy out of service: inbound connections close with their next answer",
		Long:    drainLong,
		Example: "  agent drain\n  agent drain --statusPort 15020",
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	target := statusTarget(f)
	f.DurationVar(&timeout, "timeout", 5*time.Second, "maximum time to wait for Envoy")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if timeout <= 0 {
			return setting.Usage("agent", fmt.Errorf("--timeout %v: want more than 0s", timeout))
		}
		agent, err := target.client(environ.Parse(c.environ), timeout)
		if err != nil {
			return err
		}
		return agent.Drain(cmd.Context())
	}
	return cmd
}
