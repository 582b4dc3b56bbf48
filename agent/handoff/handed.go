package handoff

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

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
