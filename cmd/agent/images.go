package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

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

// run runs the proxy in this image, and in the next ones of the agent:
//
//	start ─▶ Run ─▶ *proxy.Left ─▶ execve ─▶ the next image: Receive ─▶ Run
//	          ▲                      │ fails           │ fails before it has taken over
//	          └──────────────────────┘                 └──▶ execve of the image before: Receive ─▶ Run
func (c command) run(ctx context.Context, p *proxy.Proxy, process proxy.Process, log *slog.Logger) error {
	process.Argv, *c.runs = os.Args, true
	if c.handed != "" {
		self, err := proxy.Self()
		if err == nil {
			process.Handed, err = upgrade.Receive(c.handed, self)
		}
		if err == nil {
			err = upgrade.Arrive(c.fork, os.Args[0])
		}
		if err != nil {
			return c.back(process.Handed, err, log)
		}
		upgrade.At(upgrade.Received)
		for _, s := range process.Handed.Signals {
			_ = syscall.Kill(os.Getpid(), s)
		}
	}
	for {
		err := c.attempt(ctx, p, process)
		var left *proxy.Left
		switch {
		case errors.As(err, &left):
			failed := c.next(ctx, left, process, log)
			log.Error("another image of the agent not executed, this one goes on", "binary", left.Image.Name(), "err", failed)
			left.Handed.Failure = failed.Error()
			process.Handed = left.Handed
		case process.Handed != nil && !process.Handed.Accepted():
			return c.back(process.Handed, err, log)
		default:
			return err
		}
	}
}

// attempt runs the proxy. A panic before it has taken over is an error, since the image before can still go on.
func (c command) attempt(ctx context.Context, p *proxy.Proxy, process proxy.Process) (err error) {
	defer func() {
		if process.Handed == nil || process.Handed.Accepted() {
			return
		}
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	return p.Run(ctx, process)
}

// lastFlush bounds the time to write the lines since the ports were closed. Before that readers had time.
const lastFlush = 10 * time.Millisecond

// next executes the next image. It returns if that fails.
func (c command) next(ctx context.Context, left *proxy.Left, process proxy.Process, log *slog.Logger) error {
	defer left.Image.Close()
	if left.Unable != nil {
		return left.Unable
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer self.Close()
	log.Info("another image of the agent goes on", "binary", left.Image.Name())
	process.Printed.Flush(lastFlush)
	c.said.Flush(lastFlush)
	if err := upgrade.Hold(true); err != nil {
		return err
	}
	upgrade.At(upgrade.Held)
	signals := func() []syscall.Signal {
		signals := c.settled()
		if len(process.HangUp) > 0 {
			signals = append(signals, syscall.SIGHUP)
		}
		return signals
	}
	err = left.Handed.Exec(c.fork, left.Image, self, signals, os.Args, c.environ)
	return errors.Join(err, upgrade.Hold(false))
}

// unable returns to the image before when this one does not even run the proxy.
func (c command) unable(why error) error {
	log := newLogger(c.said, "info", "text")
	self, err := proxy.Self()
	if err != nil {
		return errors.Join(why, err)
	}
	handed, err := upgrade.Receive(c.handed, self)
	return c.back(handed, errors.Join(why, err), log)
}

// back executes the image before, and tells it why this one has not taken over. It returns if that fails too.
func (c command) back(handed *upgrade.Handed, why error, log *slog.Logger) error {
	log.Error("this image of the agent cannot go on, the one before does", "err", why)
	c.said.Flush(flushLimit)
	_ = upgrade.Hold(true) // a signal now may end the agent, as it would without
	if handed == nil {
		return why
	}
	failed := handed.Back(c.fork, why, os.Args, slices.Clone(c.environ))
	return errors.Join(why, fmt.Errorf("return to the image before: %w", failed))
}
