package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/internal/environ"
	"github.com/pilotlight/pilotlight/internal/setting"
)

const statusLong = `Print what the agent does and why: its Envoy processes, what readiness is made of, its restart budget,
the workload's certificates and the last events.

Exit status: 0 the proxy is ready; 1 it is not, or nobody answers, which stderr tells; 2 a fault of flags or
environment.`

func statusCommand(c command) *cobra.Command {
	var output string
	var requestTimeout time.Duration
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Print what the agent does and why; exit status 0 when the proxy is ready",
		Long:    statusLong,
		Example: "  agent status\n  agent status -o json | jq .health.conditions",
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	target := statusTarget(f)
	f.StringVarP(&output, "output", "o", "table", "table, or json for the document as the agent gave it")
	f.DurationVar(&requestTimeout, "requestTimeout", 5*time.Second, "how long the agent may take to answer")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if output != "table" && output != "json" {
			return setting.Usage("agent", fmt.Errorf("--output %q: want table or json", output))
		}
		if requestTimeout <= 0 {
			return setting.Usage("agent", fmt.Errorf("--requestTimeout %v: want more than 0s", requestTimeout))
		}
		return printStatus(cmd.Context(), cmd.OutOrStdout(), c, target, output, requestTimeout)
	}
	return cmd
}

func printStatus(ctx context.Context, out io.Writer, c command, t *target, output string, timeout time.Duration) error {
	agent, err := t.client(environ.Parse(c.environ), timeout)
	if err != nil {
		return err
	}
	status, document, err := agent.Status(ctx)
	if err != nil {
		return err
	}
	if output == "json" {
		_, err = out.Write(document)
	} else {
		_, err = io.WriteString(out, statusTable(status, time.Now()))
	}
	if err == nil && !status.Ready {
		err = &exit{status: exitConfiguration}
	}
	return err
}
