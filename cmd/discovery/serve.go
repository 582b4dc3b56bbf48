package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/heap"
	"github.com/pilotlight/pilotlight/discovery/registry/serviceentry"
	"github.com/pilotlight/pilotlight/discovery/status"
	"github.com/pilotlight/pilotlight/internal/version"
)

// grace is how long HTTP requests may take to end.
const grace = time.Second

// serveConfig is what the flags of serve say, by pilot-discovery's names.
type serveConfig struct {
	configDir      string
	meshConfig     string // file, empty for Istio's defaults
	networksConfig string // file, empty for one network
	grpcAddr       string
	secureGRPCAddr string // used with certificates only
	httpAddr       string
	monitoringAddr string
	certificates   ads.Certificates
	secretsDir     string // empty for none
	after, max     durationFlag
	limits         limitFlags
	tracing        tracing
	exposeDebug    bool
	logLevel       string
	logFormat      string
}

func newServe() *cobra.Command {
	c := serveConfig{after: duration(100 * time.Millisecond), max: duration(10 * time.Second), limits: newLimitFlags(), tracing: newTracing(os.Getenv)}
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
	flags.StringVar(&c.meshConfig, "meshConfig", "", "file of Istio's MeshConfig; read again when it changes")
	flags.StringVar(&c.networksConfig, "networksConfig", "", "file of Istio's MeshNetworks; read again when it changes")
	flags.StringVar(&c.grpcAddr, "grpcAddr", ":15010", "address of ADS")
	flags.StringVar(&c.secureGRPCAddr, "secureGRPCAddr", ":15012", "address of ADS with mTLS; used when --tlsCertFile is set")
	flags.StringVar(&c.httpAddr, "httpAddr", ":8080", "address of /ready, /v1/registration and /debug")
	flags.StringVar(&c.monitoringAddr, "monitoringAddr", ":15014", "address of /metrics and /version; empty for none")
	flags.StringVar(&c.certificates.Cert, "tlsCertFile", "", "the server's certificate, PEM; read again when it changes")
	flags.StringVar(&c.certificates.Key, "tlsKeyFile", "", "its private key, PEM")
	flags.StringVar(&c.certificates.CA, "caCertFile", "", "roots of the proxies' certificates, PEM")
	flags.StringVar(&c.secretsDir, "secretsDir", "", "directory of what credentialName names, as NAMESPACE/NAME/tls.crt, tls.key and ca.crt; "+
		"read again when it changes, sent to proxies of the namespace with mTLS, or on loopback")
	flags.Var(&c.after, "debounceAfter", "push after this long without another change")
	flags.Var(&c.max, "debounceMax", "but not later than this after the first change")
	c.limits.add(flags)
	c.tracing.add(flags)
	flags.BoolVar(&c.exposeDebug, "exposeDebug", false, "answer /debug and /v1/registration to other hosts too: they show the whole mesh")
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
		missing, checkAddress("--grpcAddr", c.grpcAddr), checkAddress("--httpAddr", c.httpAddr), c.checkSecure(), c.checkMonitoring(),
		quiet, ceiling, order, c.limits.check(), c.tracing.check(),
		checkOneOf("--logLevel", c.logLevel, "debug", "info", "warn", "error"),
		checkOneOf("--logFormat", c.logFormat, "text", "json"),
	)
}

func (c *serveConfig) secure() bool { return c.certificates != ads.Certificates{} }

func (c *serveConfig) checkSecure() error {
	if !c.secure() {
		return nil
	}
	if c.certificates.Cert == "" || c.certificates.Key == "" || c.certificates.CA == "" {
		return errors.New("--tlsCertFile, --tlsKeyFile and --caCertFile belong together: want all of them or none")
	}
	return checkAddress("--secureGRPCAddr", c.secureGRPCAddr)
}

func (c *serveConfig) checkMonitoring() error {
	if c.monitoringAddr == "" {
		return nil
	}
	return checkAddress("--monitoringAddr", c.monitoringAddr)
}

// serve joins the adapters and runs them until ctx is done or one of them fails.
func serve(ctx context.Context, c serveConfig, log *slog.Logger) error {
	doors, err := c.open()
	if err != nil {
		return err
	}
	defer heap.Pace(os.Getenv)()
	proxies := ads.New(c.limits.limits(), log)
	if traces, err := c.tracing.provider(ctx, log); err != nil {
		doors.close()
		return err
	} else if traces != nil {
		proxies.Trace(traces)
		defer flushTraces(traces, log)
	}
	server := &discovery.Server{
		Sources:  c.sources(log),
		Pusher:   proxies,
		Debounce: discovery.Debounce{After: c.after.value, Max: c.max.value},
		Log:      log,
	}
	pages := status.Pages{Ready: server.Synced, Mesh: proxies.Mesh, Proxies: proxies, Exposed: c.exposeDebug}
	log.Info("serving", "configDir", c.configDir, "grpcAddr", doors.grpc.Addr().String(), "httpAddr", doors.web.Addr().String(),
		"secureGRPCAddr", addressOf(doors.secure), "monitoringAddr", addressOf(doors.monitoring))

	g, ctx := errgroup.WithContext(ctx)
	if c.secretsDir != "" {
		s := &secrets{dir: c.secretsDir, log: log}
		s.read(proxies) // before anybody asks: who is refused does not ask again
		g.Go(func() error { return s.follow(ctx, proxies) })
	}
	g.Go(func() error { return server.Run(ctx) })
	g.Go(func() error { return proxies.Serve(ctx, doors.grpc) })
	g.Go(func() error { return serveHTTP(ctx, doors.web, pages.Handler(), log) })
	if doors.secure != nil {
		g.Go(func() error { return proxies.ServeTLS(ctx, doors.secure, doors.tls) })
		g.Go(func() error { return reload(ctx, doors.tls, c.certificates, log) })
	}
	if doors.monitoring != nil {
		g.Go(func() error {
			return serveHTTP(ctx, doors.monitoring, status.Monitoring(version.Get(), proxies.Metrics()), log)
		})
	}
	err = g.Wait()
	log.Info("stopped")
	return err
}

// sources are where configuration comes from.
func (c *serveConfig) sources(log *slog.Logger) map[string]discovery.Source {
	out := map[string]discovery.Source{"config": serviceentry.Source{Store: file.New(c.configDir, log)}}
	if c.meshConfig != "" {
		out["meshConfig"] = file.NewSettings("MeshConfig", c.meshConfig, log)
	}
	if c.networksConfig != "" {
		out["networksConfig"] = file.NewSettings("MeshNetworks", c.networksConfig, log)
	}
	return out
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
