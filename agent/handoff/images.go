package handoff

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"syscall"
	"time"
)

// Images are this image of the agent, and what it needs to give way to the next one or to the one before.
type Images struct {
	Kernel        Kernel
	Argv, Environ []string
	Fork          func(func())            // runs its argument on the thread that forked the children
	Process       func() (Process, error) // this one
	Came          func() []syscall.Signal // for the next image, before signals were held
	Flush         func(time.Duration)     // writes the agent's output
	Log           *slog.Logger
}

// Next is another image that is to go on.
type Next struct {
	Handed *Handed
	Image  *os.File // to execute
	Unable error    // why the image cannot go on after all; nil if it can
}

// Flushing takes at most lastFlush before the next image: readers had time before the ports were closed. Before an image returns to the one
// before, it may say why.
const (
	lastFlush = 10 * time.Millisecond
	sayFlush  = 500 * time.Millisecond
)

// Run runs the agent in this image, and in the next ones. handed is the value of Variable; empty for a start. attempt runs the agent, with
// what it is to take over, until it ends or another image is to go on:
//
//	start ─▶ attempt ─▶ Next ─▶ execve ─▶ the next image: receive ─▶ attempt
//	            ▲                 │ fails           │ fails before it has taken over
//	            └─────────────────┘                 └──▶ execve of the image before: receive ─▶ attempt
func (i Images) Run(handed string, attempt func(*Handed) (*Next, error)) error {
	var h *Handed
	if handed != "" {
		self, err := i.Process()
		if err == nil {
			h, err = receive(i.Kernel, handed, self)
		}
		if err == nil {
			err = i.Kernel.Arrive(i.Fork, i.Argv[0])
		}
		if err != nil {
			return i.back(h, err)
		}
		At(Received)
		for _, s := range h.Signals {
			_ = i.Kernel.Raise(s)
		}
	}
	for {
		next, err := attempted(attempt, h)
		switch {
		case next != nil:
			failed := i.next(next)
			i.Log.Error("another image of the agent not executed, this one goes on", "binary", next.Image.Name(), "err", failed)
			h = next.Handed
			h.Failure = failed.Error()
		case h != nil && !h.Accepted():
			return i.back(h, err)
		default:
			return err
		}
	}
}

// attempted is attempt. A panic before it has taken over is an error, since the image before can still go on.
func attempted(attempt func(*Handed) (*Next, error), h *Handed) (next *Next, err error) {
	defer func() {
		if h == nil || h.Accepted() {
			return
		}
		if cause := recover(); cause != nil {
			next, err = nil, fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	return attempt(h)
}

// next executes the next image. It returns if that fails.
func (i Images) next(next *Next) error {
	defer next.Image.Close()
	if next.Unable != nil {
		return next.Unable
	}
	self, err := i.Kernel.Self()
	if err != nil {
		return err
	}
	defer self.Close()
	i.Log.Info("another image of the agent goes on", "binary", next.Image.Name())
	i.Flush(lastFlush)
	if err := i.hold(true); err != nil {
		return err
	}
	At(Held)
	err = next.Handed.exec(i, next.Image, self, i.Came)
	return errors.Join(err, i.hold(false))
}

// hold calls Hold on the thread that executes images.
func (i Images) hold(yes bool) (err error) {
	i.Fork(func() { err = i.Kernel.Hold(yes) })
	return err
}

// Unable returns to the image before when this one does not even run the agent.
func (i Images) Unable(handed string, why error) error {
	self, err := i.Process()
	if err != nil {
		return errors.Join(why, err)
	}
	h, err := receive(i.Kernel, handed, self)
	return i.back(h, errors.Join(why, err))
}

// back executes the image before, and tells it why this one has not taken over. It returns if that fails too.
func (i Images) back(h *Handed, why error) error {
	i.Log.Error("this image of the agent cannot go on, the one before does", "err", why)
	i.Flush(sayFlush)
	_ = i.hold(true) // a signal now may end the agent, as it would without
	if h == nil {
		return why
	}
	return errors.Join(why, fmt.Errorf("return to the image before: %w", h.back(i, why)))
}
