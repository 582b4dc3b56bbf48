package kube

import (
	"context"
	"time"

	"github.com/pilotlight/pilotlight/internal/retry"
)

// A Session that failed is begun again after firstPause, then twice as long each time, up to longPause.
const (
	firstPause = time.Second
	longPause  = 30 * time.Second
)

// Keep is Run until ctx is done: after an error it calls failed, waits, and begins again.
func Keep(ctx context.Context, connect func() (*Client, error), do func(context.Context, *Session) error, failed func(err error, again time.Duration)) {
	retry.Delays{First: firstPause, Last: longPause}.Do(ctx, func() error { return Run(ctx, connect, do) }, failed)
}
