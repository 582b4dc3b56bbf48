package envoy

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// ReapOrphans reaps the orphans that the kernel gives to PID 1, until ctx ends.
func ReapOrphans(ctx context.Context, log *slog.Logger) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	reaper := Reaper{Log: log}
	_ = reaper.Run(ctx, ended) // ends with ctx
}
