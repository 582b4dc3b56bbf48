package handoff

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
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

// Variable is the environment variable of an image that is to take over: descriptors of the state and of the image before, signals that
// the image before has received for it, and after an image that could not take over why.
const Variable = "PILOTLIGHT_ADOPT"

// Handed is what an image takes over.
type Handed struct {
	Files   *Files
	Body    []byte
	Failure string           // why another image could not take over; empty for none
	Signals []syscall.Signal // that came for this image

	text     []byte
	previous *os.File // the image before; nil for this one
	accepted bool
}

// receive reads what the value of Variable names. The descriptors get close-on-exec. If the state cannot be read, back of what is returned
// still leads to the image before.
func receive(k Kernel, value string, self Process) (*Handed, error) {
	h := &Handed{Files: &Files{kernel: &k}}
	parts := strings.SplitN(value, ",", 4)
	state, err := descriptor(k, parts[0])
	if err == nil && len(parts) > 1 && parts[1] != "" {
		var previous int
		if previous, err = descriptor(k, parts[1]); err == nil {
			h.previous = os.NewFile(uintptr(previous), "previous")
		}
	}
	if err == nil && len(parts) > 2 {
		h.Signals, err = read(parts[2])
	}
	if len(parts) > 3 {
		h.Failure = parts[3]
	}
	if err != nil {
		return h, fmt.Errorf("$%s %.200q: want descriptors of the agent before: %w", Variable, value, err)
	}
	defer func() { _ = k.Close(state) }()
	if h.text, err = k.Unseal(state); err != nil {
		return h, fmt.Errorf("$%s: descriptor %d: %w", Variable, state, err)
	}
	e, err := decode(h.text, self)
	if err != nil {
		return h, fmt.Errorf("$%s: descriptor %d: %w", Variable, state, err)
	}
	h.Files.numbers, h.Body = e.Files, e.Body
	if err := h.Files.inheritable(false); err != nil {
		return h, fmt.Errorf("$%s: descriptor %d: %w", Variable, state, err)
	}
	return h, nil
}

// descriptor parses the number of an open descriptor, and sets its close-on-exec.
func descriptor(k Kernel, text string) (int, error) {
	fd, err := strconv.Atoi(text)
	if err == nil && (fd < 3 || fd > highest) {
		err = fmt.Errorf("descriptor %d, want 3 to %d", fd, highest)
	}
	if err == nil {
		err = k.Inherit(fd, false)
	}
	return fd, err
}

// Pack makes what a body and files hand over, to another image or to this one again.
func Pack(self Process, files *Files, body any) (*Handed, error) {
	text, err := encode(self, files.numbers, body)
	if err != nil {
		return nil, err
	}
	e, err := decode(text, self)
	return &Handed{Files: files, Body: e.Body, text: text}, err
}

// Accept ends the handing over: there is no way back any more. The files that were not taken are closed.
func (h *Handed) Accept() {
	h.accepted = true
	h.Files.close()
	if h.previous != nil {
		h.previous.Close()
	}
}

// Accepted reports whether Accept was called.
func (h *Handed) Accepted() bool { return h.accepted }
