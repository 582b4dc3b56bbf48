package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/agent/handoff"
	"github.com/pilotlight/pilotlight/agent/lossy"
	"github.com/pilotlight/pilotlight/agent/proxy"
)

const proxyLong = `Launch Envoy and keep it alive until SIGTERM or SIGINT. SIGHUP has every watched file looked at.

Each flag is an environment variable too, PILOTLIGHT_ and its name in capitals (--statusPort is PILOTLIGHT_STATUS_PORT),
and a key of the YAML file that --config names. A flag beats a variable, a variable the file, the file the default.

SIGTERM and SIGINT let requests in flight finish, for --terminationDrainDuration at most. A second one within two seconds
changes nothing, for many senders signal twice; a later one ends Envoy at once, and a third kills it. SIGQUIT ends Envoy at
once, and cuts requests in flight; with --logLevel debug the agent's goroutines are logged before.`

const proxyExample = `  agent proxy sidecar --ip 10.1.2.3 --id reviews-1.default --serviceregistry Other --discoveryAddress pilot:15010
  agent proxy router --config /etc/istio/agent.yaml --print-config
  agent proxy sidecar -- --component-log-level upstream:debug`

func proxyCommand(c command) *cobra.Command {
	g := given{command: c}
	printConfig, canAdopt := false, false
	cmd := &cobra.Command{
		Use:     "proxy [sidecar|ingress|router] [flags] [-- ENVOY-ARGUMENT...]",
		Short:   "Launch Envoy and keep it alive until SIGTERM or SIGINT",
		Long:    proxyLong,
		Example: proxyExample,
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			unready := ""
			if !printConfig && !canAdopt {
				defer func() { leave(terminationLog, err, unready) }()
			}
			survivePipes()
			if c.handed == "" {
				c.hangUp, c.upgrade = hangUps(), upgradeSignals()
			}
			g.arguments(cmd, args)
			s, config, err := g.config()
			if err != nil {
				return err
			}
			config.AwaitAddress = !printConfig && !canAdopt && c.handed == ""
			printed := lossy.NewWriter(c.stdout)
			c.said.OnFlow(dropped(config.Log, "stderr"))
			printed.OnFlow(dropped(config.Log, "stdout"))
			p, err := proxy.New(cmd.Context(), config)
			if printConfig {
				if err != nil {
					fmt.Fprintln(c.said, "agent: it would not start:", usageOf(err))
				}
				return s.print(cmd.OutOrStdout(), p.Derived())
			}
			if err != nil {
				return usageOf(err)
			}
			if canAdopt {
				return answer(cmd.OutOrStdout())
			}
			if cmd.Context().Err() != nil && c.handed == "" {
				return nil // a signal to stop came during the wait for an address
			}
			return c.run(cmd.Context(), p, proxy.Process{
				Fork: c.fork, Stop: c.stop, Hurry: c.hurry, Quit: c.quit, HangUp: c.hangUp, Upgrade: c.upgrade, Stderr: c.said, Printed: printed,
				Unready: func(reason string) { unready = reason },
				Settings: func() string {
					var text strings.Builder
					if err := s.print(&text, p.Derived()); err != nil {
						return err.Error()
					}
					return text.String()
				},
			}, config.Log)
		},
	}
	g.register(cmd)
	cmd.Flags().BoolVar(&printConfig, "print-config", false,
		"print each setting's value and where it came from, and start nothing")
	cmd.Flags().BoolVar(&canAdopt, handoff.Flag, false,
		"say whether this binary could go on with the Envoy of a running agent that has the same arguments, and start nothing")
	return cmd
}
