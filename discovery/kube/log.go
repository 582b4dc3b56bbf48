package kube

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// LogTo makes client-go, which has one log for a whole process, write to log, at the level debug. Errors that matter
// are also returned to this package; the others are requests that were cancelled. Only the first call of a process has an
// effect: a goroutine that client-go has left behind may read its log at any time.
func LogTo(log *slog.Logger) {
	if _, set := logr.ToSlogHandler(klog.Background()).(quiet); !set {
		klog.SetSlogLogger(slog.New(quiet{log.Handler()}))
	}
}

// quiet lowers every level to debug.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, _ slog.Level) bool {
	return q.Handler.Enabled(ctx, slog.LevelDebug)
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return q.Handler.Handle(ctx, r)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }
func (q quiet) WithGroup(name string) slog.Handler       { return quiet{q.Handler.WithGroup(name)} }
