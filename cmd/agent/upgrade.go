package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/agent/handoff"
	"github.com/pilotlight/pilotlight/agent/lossy"
	"github.com/pilotlight/pilotlight/agent/proxy"
	"github.com/pilotlight/pilotlight/internal/environ"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/version"
)

const upgradeLong = `Have a running agent replace its program by another binary, under the same Envoy, and wait until that is done.

The agent asks the binary first whether it can take over, with the agent's own arguments and environment; if not, nothing changes.
While a handover is under way it waits. Its process id, its Envoy and its ports stay; no connection of Envoy's is touched. If the new
binary cannot take over after all, the old one goes on.

The agent's own user and root may ask, by the agent's socket in --configPath. SIGUSR2 does the same with the binary at the agent's
own path; the agent then logs what became of it.

Exit status: 0 the binary runs; 1 it does not, which stderr explains; 2 a fault of flags or environment.`

func upgradeCommand(c command) *cobra.Command {
	var binary string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:     "upgrade",
		Short:   "Have a running agent replace its program by another binary, under the same Envoy",
		Long:    upgradeLong,
		Example: "  agent upgrade\n  agent upgrade --binary /opt/agent-2/agent --configPath /var/lib/pilotlight",
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	f.SortFlags = false
	target := statusTarget(f)
	f.StringVar(&binary, "binary", "", "the binary; empty for the one at the path of the agent's own")
	f.DurationVar(&timeout, "timeout", 3*time.Minute, "how long it may take: a handover that is under way ends first")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if timeout <= 0 {
			return setting.Usage("agent", fmt.Errorf("--timeout %v: want more than 0s", timeout))
		}
		if binary != "" {
			path, err := filepath.Abs(binary) // the agent may have another working directory
			if err != nil {
				return err
			}
			binary = path
		}
		ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("not done within %s: the agent goes on trying, see agent status", timeout))
		defer cancel()
		return upgradeAgent(ctx, cmd.OutOrStdout(), c, target, binary)
	}
	return cmd
}

func upgradeAgent(ctx context.Context, out io.Writer, c command, t *target, binary string) error {
	agent, err := t.client(environ.Parse(c.environ), 30*time.Second)
	if err != nil {
		return err
	}
	if agent.Socket != nil && agent.Socket() == "" {
		return fmt.Errorf("upgrade: no agent has its socket in %s that this user may use: is --configPath right?", t.configPath)
	}
	version, err := agent.Upgrade(ctx, binary)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "running:", version)
	return err
}

// answer says to a running agent whether this image could go on.
func answer(out io.Writer) error {
	a, err := handoff.NewAnswer(version.Get().String())
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(a)
}

// run runs the proxy in this image, and in the next ones of the agent.
func (c command) run(ctx context.Context, p *proxy.Proxy, process proxy.Process, log *slog.Logger) error {
	process.Argv, *c.runs = os.Args, true
	return c.images(log, process.Printed).Run(c.handed, func(handed *handoff.Handed) (*handoff.Next, error) {
		process.Handed = handed
		err := p.Run(ctx, process)
		var left *proxy.Left
		if errors.As(err, &left) {
			return &left.Next, nil
		}
		return nil, err
	})
}

// unable returns to the image before when this one does not even run the proxy.
func (c command) unable(why error) error {
	return c.images(newLogger(c.said, "info", "text"), nil).Unable(c.handed, why)
}

func (c command) images(log *slog.Logger, printed *lossy.Writer) handoff.Images {
	return handoff.Images{
		Kernel: handoff.Linux(), Argv: os.Args, Environ: c.environ, Fork: c.fork, Process: proxy.Self, Log: log,
		Came: func() []syscall.Signal {
			signals := c.settled()
			if len(c.hangUp) > 0 {
				signals = append(signals, syscall.SIGHUP)
			}
			if len(c.upgrade) > 0 {
				signals = append(signals, syscall.SIGUSR2)
			}
			return signals
		},
		Flush: func(limit time.Duration) {
			if printed != nil {
				printed.Flush(limit)
			}
			c.said.Flush(limit)
		},
	}
}
