package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/heap"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/discovery/tracing"
	"github.com/pilotlight/pilotlight/internal/environ"
	"github.com/pilotlight/pilotlight/internal/logger"
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
	cmd.SetUsageFunc(usageInGroups)
	cmd.Flags().BoolVar(&printConfig, "print-config", false, "print each setting's value and where it came from, and serve nothing")
	return cmd
}

// serve runs a control plane until ctx is done or a part of it fails.
func serve(ctx context.Context, s *settings, log *slog.Logger) error {
	defer heap.Pace(os.Getenv)()
	traces, err := tracing.To(s.otlpEndpoint, os.Getenv).Provider(ctx, log)
	if err != nil {
		return err
	}
	c := s.served(podNamespace())
	c.Replica, c.Log = replica(), log
	if traces != nil {
		c.Traces = traces
		defer tracing.Flush(traces, log)
	}
	p, err := plane.New(c)
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// served returns what the settings say to serve. pod is the namespace of this Pod, "" outside of one.
func (s *settings) served(pod string) plane.Config {
	consul, eureka := s.consul, s.eureka
	consul.Domains, eureka.Grant = s.domains.InLowerCase().Consul, s.domains.OfEureka(s.domain)
	return plane.Config{
		Domain: s.domain, Loopback: s.loopback, ConfigDir: s.configDir, MeshConfig: s.meshConfig, NetworksConfig: s.networksConfig, SecretsDir: s.secretsDir,
		Registries: s.registries, Optional: s.optional, Consul: consul, Eureka: eureka, CloudFoundry: s.cloudFoundry.served(s.domains.OfCloudFoundry(s.domain)),
		Cluster: s.cluster.served(pod),
		Ingress: s.ingress.served(), GatewaySecrets: namesOf(s.gatewaySecrets), Webhooks: s.webhooks.served(),
		Addresses: plane.Addresses{
			GRPC: s.grpcAddr, HTTP: s.httpAddr, SecureGRPC: s.secureGRPCAddr, Monitoring: s.monitoringAddr, Webhooks: s.webhooks.address,
		},
		ExposeDebug: s.exposeDebug, Certificates: s.certificates, Limits: s.limits,
		Debounce: discovery.Debounce{After: s.after, Max: s.max},
		Patience: discovery.Patience{Sync: s.syncTimeout, Wipe: s.wipeDelay, Linger: discovery.Linger},
	}
}
