package handoff

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Flag makes an image answer instead of run.
const Flag = "can-adopt"

// patience bounds the answer of an image. It takes a few milliseconds.
const patience = 10 * time.Second

// longestAnswer bounds what is kept of an image's output, in bytes.
const longestAnswer = 16 << 10

// Answer is what an image says.
type Answer struct {
	Formats      []int  `json:"formats"` // that it reads
	Version      string `json:"version"`
	Capabilities string `json:"capabilities"` // effective ones as in /proc/self/status: those of a file are given anew at each execve
}

// NewAnswer returns the answer of this image.
func NewAnswer(version string) (Answer, error) {
	own, err := capabilities()
	return Answer{Formats(), version, strconv.FormatUint(own, 16)}, err
}

// Ask runs an image with the arguments of this one, and returns its answer. An error says why it cannot take over.
func Ask(ctx context.Context, image *os.File, argv, environ []string) (Answer, error) {
	answer, err := ask(ctx, image, argv, environ)
	if err != nil {
		return answer, fmt.Errorf("%s cannot take over: %w", image.Name(), err)
	}
	return answer, nil
}

func ask(ctx context.Context, image *os.File, argv, environ []string) (a Answer, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %s", patience))
	defer cancel()
	// A parent-death signal comes when the forking thread ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, fmt.Sprintf("/proc/self/fd/%d", image.Fd()))
	cmd.Args = slices.Insert(slices.Clone(argv), 2, "--"+Flag)
	cmd.Env = environ
	var out, complaint bounded
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	switch err := cmd.Run(); {
	case ctx.Err() != nil:
		return a, context.Cause(ctx)
	case err != nil:
		if line := complaint.last(); line != "" {
			err = fmt.Errorf("%w: %s", err, line)
		}
		return a, err
	}
	if err := json.Unmarshal(out.Bytes(), &a); err != nil { // another image may add fields
		return a, fmt.Errorf("it does not say what it can adopt: %.200q", out.String())
	}
	return a, a.fits()
}

func (a Answer) fits() error {
	if !slices.Contains(a.Formats, Format) {
		return fmt.Errorf("it reads states of formats %v, this agent writes %d", a.Formats, Format)
	}
	own, err := capabilities()
	if err != nil {
		return err
	}
	theirs, err := strconv.ParseUint(a.Capabilities, 16, 64)
	if err != nil {
		return fmt.Errorf("its capabilities: %w", err)
	}
	if lost := own &^ theirs; lost != 0 {
		return fmt.Errorf("it would lose capabilities that this agent has (bits %x of capabilities(7)): give its file the same ones", lost)
	}
	return nil
}

// capabilities returns the effective capabilities of this process.
func capabilities() (uint64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, after, found := strings.Cut(string(status), "\nCapEff:")
	line, _, _ := strings.Cut(after, "\n")
	set, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if !found || err != nil {
		return 0, fmt.Errorf("parse CapEff in /proc/self/status: %q", line)
	}
	return set, nil
}

// bounded keeps the first bytes that are written to it.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), longestAnswer-b.Len())])
	return len(p), nil
}

// last returns the last line, but not the one on how to get the usage, which follows a fault of the settings.
func (b *bounded) last() (last string) {
	for line := range strings.Lines(b.String()) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "Run '") {
			last = line
		}
	}
	return last
}
