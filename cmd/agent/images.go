package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/agent/lossy"
	"github.com/pilotlight/pilotlight/agent/proxy"
	"github.com/pilotlight/pilotlight/agent/upgrade"
	"github.com/pilotlight/pilotlight/internal/version"
)

// answer says to a running agent whether this image could go on.
func answer(out io.Writer) error {
	a, err := upgrade.NewAnswer(version.Get().String())
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(a)
}

// run runs the proxy in this image, and in the next ones of the agent.
func (c command) run(ctx context.Context, p *proxy.Proxy, process proxy.Process, log *slog.Logger) error {
	process.Argv, *c.runs = os.Args, true
	return c.images(log, process.Printed).Run(c.handed, func(handed *upgrade.Handed) (*upgrade.Next, error) {
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

func (c command) images(log *slog.Logger, printed *lossy.Writer) upgrade.Images {
	return upgrade.Images{
		Kernel: upgrade.Linux(), Argv: os.Args, Environ: c.environ, Fork: c.fork, Process: proxy.Self, Log: log,
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
