package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/agent/client"
	"github.com/pilotlight/pilotlight/agent/status"
	"github.com/pilotlight/pilotlight/agent/why"
	"github.com/pilotlight/pilotlight/internal/environ"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/subcommand"
)

const whyLong = `Say in words why requests failed: from the counters and endpoints of the running Envoy, without any control plane.

Each finding has Envoy's response flag, as access logs have it, how often, where, why, and what to do. Counts are since the Envoy's start;
with --for they are of that time alone: start it, send the request that fails, and read.

Below are the last requests that failed, the newest last, from a record that Envoy sends for each within a second or two. The agent keeps
the last 100 in memory. Values of queries, and what looks like a secret, are not shown.

The agent answers programs on this host only. Exit status: 0 for an answer; 1 for none; 2 a fault of flags or environment.`

func whyCommand(c command) *cobra.Command {
	var last int
	var period, requestTimeout time.Duration
	cmd := &cobra.Command{
		Use:     "why",
		Short:   "Say in words why requests failed",
		Long:    whyLong,
		Example: "  agent why\n  agent why --for 10s\n  agent why -o json | jq '.findings[] | .where'",
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	target := statusTarget(f)
	f.IntVar(&last, "last", 20, "how many findings to print, the most frequent first, and how many failed requests, the newest last")
	f.DurationVar(&period, "for", 0, "count what fails in this time from now, instead of since the Envoy's start")
	output := subcommand.AddOutput(cmd)
	f.DurationVar(&requestTimeout, "requestTimeout", 5*time.Second, "how long the agent may take to answer")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case last < 1:
			return setting.Usage("agent", fmt.Errorf("--last %d: want 1 or more", last))
		case period != 0 && period < time.Second: // the agent gives an answer again for so long
			return setting.Usage("agent", fmt.Errorf("--for %v: want 1s or more", period))
		case requestTimeout <= 0:
			return setting.Usage("agent", fmt.Errorf("--requestTimeout %v: want more than 0s", requestTimeout))
		}
		agent, err := target.client(environ.Parse(c.environ), requestTimeout)
		if err != nil {
			return err
		}
		answer, err := askWhy(cmd.Context(), agent, period)
		if err != nil {
			return err
		}
		answer.Findings = answer.Findings[:min(len(answer.Findings), last)]
		answer.Requests = answer.Requests[max(0, len(answer.Requests)-last):]
		return output.Print(cmd.OutOrStdout(), answer, whyText(answer))
	}
	return cmd
}

// askWhy asks once, or twice with a period in between.
func askWhy(ctx context.Context, agent *client.Client, period time.Duration) (status.Why, error) {
	first, err := agent.Why(ctx)
	if err != nil || period == 0 {
		return first, err
	}
	select {
	case <-ctx.Done():
		return status.Why{}, context.Cause(ctx)
	case <-time.After(period):
	}
	second, err := agent.Why(ctx)
	if err != nil {
		return second, err
	}
	second.Requests = slices.DeleteFunc(second.Requests, func(r why.Request) bool { return r.At.Before(first.At) })
	before := first.Findings
	if !first.Since.Equal(second.Since) {
		before = nil // another Envoy, which began to count after the first question
	} else {
		second.Since = first.At
	}
	second.Findings = why.Since(second.Findings, before)
	return second, nil
}

// whyText returns an answer as text for people.
func whyText(w status.Why) string {
	var out strings.Builder
	since := fmt.Sprintf("of epoch %d, since %s (%s)", w.Epoch, w.Since.UTC().Format(time.RFC3339), rounded(w.At.Sub(w.Since)))
	if len(w.Findings) == 0 {
		fmt.Fprintf(&out, "No failure is counted by the Envoy %s.\n", since)
	} else {
		fmt.Fprintf(&out, "Failures counted by the Envoy %s:\n", since)
	}
	led := map[string]bool{} // for one service the command is printed once
	for _, f := range w.Findings {
		flag := f.Flag
		if flag == "" {
			flag = emptyCell
		}
		fmt.Fprintf(&out, "\n%-4s %s\n     -> %s\n", printable(flag), printable(f.Text), printable(f.Instead))
		if to := f.To(); to != "" && w.Node != "" && !led[to] {
			led[to] = true
			fmt.Fprintf(&out, "     -> discovery explain --from %s --to %s names the objects, with file and line\n", printable(w.Node), printable(to))
		}
	}
	if len(w.Requests) > 0 {
		fmt.Fprintf(&out, "\nThe last failed requests:\n")
	}
	for _, r := range w.Requests {
		answer := cmp.Or(strings.Join(r.Flags, ","), emptyCell)
		if r.Code != 0 {
			answer = fmt.Sprintf("%d %s", r.Code, answer)
		}
		fmt.Fprintf(&out, "\n%s  %s  after %v\n     %s\n     -> %s\n", r.At.UTC().Format("15:04:05.000"), printable(answer),
			time.Duration(r.Took*float64(time.Millisecond)).Round(time.Millisecond), printable(r.Text), printable(r.Instead))
	}
	for _, l := range w.Lacks {
		fmt.Fprintf(&out, "\nnot told: %s\n", printable(l))
	}
	return out.String()
}
