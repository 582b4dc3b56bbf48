package watch

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Appears waits until there is something at a path, or ctx is done. Where the system grants no watch of its directory, it looks every 20 ms.
func Appears(ctx context.Context, path string) {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	var events <-chan fsnotify.Event
	if notify, err := fsnotify.NewWatcher(); err == nil {
		defer notify.Close()
		if notify.Add(filepath.Dir(path)) == nil {
			events = notify.Events
			look.Reset(poll) // an event may be lost
		}
	}
	for {
		if _, err := os.Lstat(path); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-events:
		case <-look.C:
		}
	}
}
