package main

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/heap"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/notes"
	"github.com/pilotlight/pilotlight/discovery/secret"
	secretfile "github.com/pilotlight/pilotlight/discovery/secret/file"
	"github.com/pilotlight/pilotlight/discovery/status"
	"github.com/pilotlight/pilotlight/internal/environ"
	"github.com/pilotlight/pilotlight/internal/logger"
	"github.com/pilotlight/pilotlight/internal/version"
)

func newServe() *cobra.Command {
	g := given{}
	printConfig := false
	cmd := &cobra.Command{
		Use:   "serve --configDir DIR [--registries NAME,…]",
		Short: "Serve a directory of Istio's configuration to Envoy over ADS",
		Long: `Watch a directory of Istio objects, with all directories below it, and serve what they ask for over ADS. An object with an
error is refused alone, with file, line and reason in the log, and its last good form stays in use.

Each flag is an environment variable too, PILOTLIGHT_ and its name in capitals (--configDir is PILOTLIGHT_CONFIG_DIR),
and a key of the YAML file that --config names. A flag beats a variable, a variable the file, the file the default.`,
		Example: `  discovery serve --configDir mesh/
  discovery serve --config /etc/pilotlight/discovery.yaml --print-config`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := g.settings(environ.Parse(os.Environ()))
			if err != nil {
				return err
			}
			if printConfig {
				return s.table().Effective(cmd.OutOrStdout(), s.origins)
			}
			return serve(cmd.Context(), s, logger.New(cmd.ErrOrStderr(), s.logLevel, s.logFormat, nil))
		},
	}
	g.register(cmd)
	cmd.Flags().BoolVar(&printConfig, "print-config", false, "print each setting's value and where it came from, and serve nothing")
	return cmd
}

// serve joins the adapters and runs them until ctx is done or one of them fails.
func serve(ctx context.Context, c *settings, log *slog.Logger) error {
	doors, err := c.open()
	if err != nil {
		return err
	}
	defer heap.Pace(os.Getenv)()
	limits := c.limits
	limits.ExposeObjects = c.exposeDebug
	limits.Connections = cmp.Or(limits.Connections, maxProxyConnections(descriptors()-c.webhooks.descriptors()))
	proxies := ads.New(limits, log)
	if traces, err := newTracing(c.otlpEndpoint, os.Getenv).provider(ctx, log); err != nil {
		doors.close()
		return err
	} else if traces != nil {
		proxies.Trace(traces)
		defer flushTraces(traces, log)
	}
	kube.LogTo(log)
	keys := c.secretSources(log)
	fromDir, _ := keys["secretsDir"].(*secretfile.Source)
	ingresses := c.ingress.open(c.domain, fromDir)
	store := newStore(c.configDir, c.domain, c.wipeDelay, ingresses.feed("config"), log)
	reporter := notes.New(proxies.Proxies, log)
	proxies.OnRefusal(reporter.Recheck)
	self := identity()
	c.cluster.receiver = c.cluster.statuses(self, log)
	server := &discovery.Server{
		Sources:  c.sources(store, log),
		Domain:   c.domain,
		Pusher:   proxies,
		Judge:    reporter,
		Debounce: discovery.Debounce{After: c.after, Max: c.max},
		Patience: discovery.Patience{Sync: c.syncTimeout, Wipe: c.wipeDelay},
		Secrets:  keys,
		Vault:    proxies,
		Log:      log,
	}
	var leading []func(context.Context) error // work that one replica does for all
	if addresses := ingresses.join(server, c.cluster, slices.Contains(c.registries, kubernetesRegistry), log); addresses != nil {
		leading = append(leading, addresses.Run)
	}
	if wanted := gatewaySecrets(server, c.cluster, c.gatewaySecrets); wanted != nil {
		server.Judge = judges{reporter, wanted}
	}
	if statuses := c.cluster.receiver; statuses != nil {
		reporter.OnJudged(whole(server, statuses.Judged))
		leading = append(leading, statuses.Run)
	}
	election := c.cluster.election(self, log)
	if len(server.Secrets) > 0 {
		proxies.SetSecrets(secret.Set{}) // before a proxy subscribes: one that is refused does not subscribe again
	}
	if others := c.others(server); others != nil {
		server.Sources["clusters"] = others
	}
	further := newConfigSources(server, c.wipeDelay, c.cluster, c.domain, ingresses, log)
	if settings, known := server.Sources["meshConfig"]; known {
		server.Sources["meshConfig"] = further.followed(settings)
		if o, _ := file.ReadSettings("MeshConfig", c.meshConfig); o != nil { // before the first mesh, which waits for them
			further.set(config.ConfigSources(o))
		}
	}
	hooks := c.hooks(proxies.Mesh, server.Statuses, log)
	pages := status.Pages{
		Awaited: func() string { return awaited(server, hooks) }, Mesh: proxies.Mesh, Notes: reporter.Notes, Proxies: proxies, Exposed: c.exposeDebug,
		Config: func() any { return store.Status() }, Sources: func() any { return server.Statuses() },
		Faults: func() []string {
			return slices.Concat(store.Status().Lines(), further.lines(), sourceLines(server.Statuses()), hooks.lines())
		},
	}
	log.Info("serving", "configDir", c.configDir, "registries", c.registries, "domain", c.domain.String(), "grpcAddr", doors.grpc.Addr().String(), "httpAddr", doors.web.Addr().String(),
		"secureGRPCAddr", addressOf(doors.secure), "monitoringAddr", addressOf(doors.monitoring), "webhookAddr", addressOf(doors.webhooks))

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return server.Run(ctx) })
	g.Go(func() error { return reporter.Run(ctx) })
	if len(leading) > 0 {
		g.Go(func() error { return election.Run(ctx, leading...) })
	}
	g.Go(func() error { return proxies.Serve(ctx, doors.grpc) })
	g.Go(func() error { return serveHTTP(ctx, doors.web, pages.Handler(), pageBounds(), log) })
	if doors.secure != nil {
		g.Go(func() error { return proxies.ServeTLS(ctx, doors.secure, doors.tls) })
		g.Go(func() error { return reload(ctx, doors.tls, c.certificates, log) })
	}
	if doors.monitoring != nil {
		g.Go(func() error {
			metrics := append(collectors(server.Sources), proxies.Metrics(), server, reporter, file.Metrics(func() map[string]*file.Source {
				return further.storesAnd(store)
			}))
			if len(leading) > 0 {
				metrics = append(metrics, election)
			}
			metrics = append(metrics, hooks.collectors()...)
			return serveHTTP(ctx, doors.monitoring, status.Monitoring(version.Get(), metrics...), pageBounds(), log)
		})
	}
	if hooks != nil {
		g.Go(func() error { return hooks.run(ctx, doors.webhooks) })
	}
	err = g.Wait()
	log.Info("stopped")
	return err
}

// awaited returns what discovery waits for before it is ready; "" if for nothing.
func awaited(server *discovery.Server, hooks *hooks) string {
	if !server.Synced() {
		return "the sources have not synced yet"
	}
	return hooks.awaited(time.Now())
}
