package envoy

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// ask runs Envoy for its output only, until it exits or ctx ends, and returns its last lines of stdout and stderr. An
// exit status other than 0 is an error with Envoy's message.
func ask(ctx context.Context, binary string, args ...string) ([]string, error) {
	// A parent-death signal comes when the forking thread ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	output := newOutput(slog.New(slog.DiscardHandler), 0)
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = outputDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	switch reason := output.reason(); {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("no answer in time: %w", context.Cause(ctx))
	case err != nil && reason != "":
		return nil, fmt.Errorf("%s: %w", strings.TrimSuffix(reason, "."), err)
	case err != nil:
		return nil, err
	}
	return output.lastLines(), nil
}
