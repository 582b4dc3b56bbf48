package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/watch"
)

// doors are the addresses that are served; secure and monitoring are nil where they are not wanted.
type doors struct {
	grpc, web, secure, monitoring net.Listener
	tls                           *ads.TLS
}

// open opens all of them, or none, and says everything that is in the way.
func (c *serveConfig) open() (d doors, err error) {
	var faults []error
	listen := func(wanted bool, flag, address string) net.Listener {
		if !wanted {
			return nil
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", flag, err))
			return nil
		}
		return l
	}
	d.grpc = listen(true, "--grpcAddr", c.grpcAddr)
	d.web = listen(true, "--httpAddr", c.httpAddr)
	d.monitoring = listen(c.monitoringAddr != "", "--monitoringAddr", c.monitoringAddr)
	d.secure = listen(c.secure(), "--secureGRPCAddr", c.secureGRPCAddr)
	if c.secure() {
		if d.tls, err = ads.NewTLS(c.certificates); err != nil {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		d.close()
		return doors{}, err
	}
	return d, nil
}

// close closes those that are open. Nothing was accepted.
func (d doors) close() {
	for _, l := range []net.Listener{d.grpc, d.web, d.monitoring, d.secure} {
		if l != nil {
			_ = l.Close()
		}
	}
}

func addressOf(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// reload reads the certificates when their files change. What cannot be read is told, and the last good ones stay.
func reload(ctx context.Context, secure *ads.TLS, files ads.Certificates, log *slog.Logger) error {
	ticks := make(chan struct{}, 1)
	watcher := watch.Watcher{
		Paths: []string{files.Cert, files.Key, files.CA}, Quiet: 100 * time.Millisecond, Ceiling: time.Second,
		Recheck: time.Minute, Log: log,
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return watcher.Run(ctx, ticks) })
	g.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticks:
			}
			if err := secure.Reload(); err != nil {
				log.Error("certificates not read, the last ones stay", "err", err)
			} else {
				log.Info("certificates read", "tlsCertFile", files.Cert)
			}
		}
	})
	return g.Wait()
}
