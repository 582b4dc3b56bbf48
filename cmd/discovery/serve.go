package main

import (
	"cmp"
	"context"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/heap"
	"github.com/pilotlight/pilotlight/discovery/kube"
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
	c := s.in(kube.PodNamespace())
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

// in returns the control plane in a Pod of a namespace, "" outside of one: there the Secrets of other clusters are read unless
// another namespace, or a kubeconfig, is given, and the Lease is held.
func (s *settings) in(pod string) plane.Config {
	c := s.Config
	c.Cluster.Access.UserAgent = userAgent()
	if c.Cluster.Kubeconfig == "" && c.Cluster.Access.File == "" {
		c.Cluster.Kubeconfig = pod
	}
	c.Cluster.Lease.Namespace = cmp.Or(c.Cluster.Lease.Namespace, pod, "istio-system")
	return c
}
