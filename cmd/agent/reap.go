package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/pilotlight/pilotlight/agent/envoy"
)

// reapOrphans buries the orphans that the kernel gives to PID 1, until ctx ends.
func reapOrphans(ctx context.Context, log *slog.Logger) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	reaper := envoy.Reaper{Log: log}
	_ = reaper.Run(ctx, ended) // ends with ctx
}
