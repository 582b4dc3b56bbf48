package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/registry/serviceentry"
	"github.com/pilotlight/pilotlight/discovery/status"
)

// grace is how long HTTP requests may take to end.
const grace = time.Second

// serveConfig is what the flags of serve say, by pilot-discovery's names.
type serveConfig struct {
	configDir          string
	grpcAddr, httpAddr string
	after, max         durationFlag
	logLevel           string
	logFormat          string
}

func newServe() *cobra.Command {
	c := serveConfig{after: duration(100 * time.Millisecond), max: duration(10 * time.Second)}
	cmd := &cobra.Command{
		Use:   "serve --configDir DIR",
		Short: "Serve a directory of Istio's configuration to Envoy over ADS",
		Long: "Watches a directory of Istio objects and serves what they ask for over ADS. A file with an error is refused\n" +
			"whole, with file, line and reason in the log, and its last good state stays.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(); err != nil {
				return usageError{err}
			}
			return serve(cmd.Context(), c, newLog(cmd.ErrOrStderr(), c.logLevel, c.logFormat))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.configDir, "configDir", "", "directory, or file, of Istio objects; required")
	flags.StringVar(&c.grpcAddr, "grpcAddr", ":15010", "address of ADS")
	flags.StringVar(&c.httpAddr, "httpAddr", ":8080", "address of /ready and /debug")
	flags.Var(&c.after, "debounceAfter", "push after this long without another change")
	flags.Var(&c.max, "debounceMax", "but not later than this after the first change")
	flags.StringVar(&c.logLevel, "logLevel", "info", "debug, info, warn or error")
	flags.StringVar(&c.logFormat, "logFormat", "text", "text or json")
	return cmd
}

// check returns every fault of the flags.
func (c *serveConfig) check() error {
	var missing, order error
	if c.configDir == "" {
		missing = errors.New("--configDir is missing, want a directory or a file")
	}
	quiet, ceiling := c.after.check("--debounceAfter"), c.max.check("--debounceMax")
	if quiet == nil && ceiling == nil && c.after.value > c.max.value {
		order = fmt.Errorf("--debounceAfter is %v, want at most --debounceMax, which is %v", c.after.value, c.max.value)
	}
	return errors.Join(
		missing, checkAddress("--grpcAddr", c.grpcAddr), checkAddress("--httpAddr", c.httpAddr), quiet, ceiling, order,
		checkOneOf("--logLevel", c.logLevel, "debug", "info", "warn", "error"),
		checkOneOf("--logFormat", c.logFormat, "text", "json"),
	)
}

// serve joins the adapters and runs them until ctx is done or one of them fails.
func serve(ctx context.Context, c serveConfig, log *slog.Logger) error {
	grpc, grpcErr := listen("--grpcAddr", c.grpcAddr)
	web, webErr := listen("--httpAddr", c.httpAddr)
	if err := errors.Join(grpcErr, webErr); err != nil {
		closeAll(grpc, web)
		return err
	}
	proxies := ads.New(log)
	server := &discovery.Server{
		Sources:  map[string]discovery.Source{"config": serviceentry.Source{Store: file.New(c.configDir, log)}},
		Pusher:   proxies,
		Debounce: discovery.Debounce{After: c.after.value, Max: c.max.value},
		Log:      log,
	}
	log.Info("serving", "configDir", c.configDir, "grpcAddr", grpc.Addr().String(), "httpAddr", web.Addr().String())

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return server.Run(ctx) })
	g.Go(func() error { return proxies.Serve(ctx, grpc) })
	g.Go(func() error { return serveHTTP(ctx, web, status.Handler(server.Synced, proxies.Clients), log) })
	err := g.Wait()
	log.Info("stopped")
	return err
}

func listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return l, nil
}

func closeAll(listeners ...net.Listener) {
	for _, l := range listeners {
		if l != nil {
			_ = l.Close() // nothing was accepted
		}
	}
}

// serveHTTP serves until ctx is done; requests that are under way may end.
func serveHTTP(ctx context.Context, l net.Listener, handler http.Handler, log *slog.Logger) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve HTTP at %s: %w", l.Addr(), err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		late, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		if server.Shutdown(late) != nil {
			_ = server.Close() // who is not done by now is cut off
		}
		return nil
	})
	return g.Wait()
}
