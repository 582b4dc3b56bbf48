package plane

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/internal/safefile"
	"github.com/pilotlight/pilotlight/watch"
)

// onChange calls do when it starts, and when files may have changed, until ctx is done.
func onChange(ctx context.Context, log *slog.Logger, do func(), paths ...string) error {
	ticks := make(chan struct{}, 1)
	watcher := watch.Watcher{
		Paths: paths, Quiet: 100 * time.Millisecond, Ceiling: time.Second, Recheck: time.Minute, Log: log,
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return watcher.Run(ctx, ticks) })
	g.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticks:
				do()
			}
		}
	})
	return g.Wait()
}

// reload reads the certificates when their files change. Files that cannot be read are logged, and the last good
// certificates stay.
func reload(ctx context.Context, secure *ads.TLS, files ads.Certificates, log *slog.Logger) error {
	var last [sha256.Size]byte
	return onChange(ctx, log, func() {
		now := contents(files.Cert, files.Key, files.CA)
		changed := now != last
		last = now
		if err := secure.Reload(); err != nil {
			log.Error("certificates not read, the last ones stay", "err", err)
		} else if changed { // they are also read every minute, without a change
			log.Info("certificates read", "tlsCertFile", files.Cert)
		}
	}, files.Cert, files.Key, files.CA)
}

// contents returns a hash of the contents of files. A file that cannot be read counts as empty.
func contents(paths ...string) [sha256.Size]byte {
	hash := sha256.New()
	for _, path := range paths {
		data, _ := safefile.Read(path, 4<<20)
		fmt.Fprintf(hash, "%d %s", len(data), data)
	}
	return [sha256.Size]byte(hash.Sum(nil))
}
