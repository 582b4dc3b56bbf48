package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/agent/proxy"
)

const bootstrapLong = `Print the bootstrap that proxy, with the same settings, would give to Envoy; less the admin, which each epoch has its own.
Outside of a pod, stand-ins take the place of what identifies the proxy, and a line on standard error names them.

With --diff, print how it differs from the bootstrap of the Envoy that runs, secrets masked: "-" is what runs, "+" is what would.
Exit status 1 if it differs.`

const bootstrapExample = `  agent bootstrap router --config /etc/istio/agent.yaml
  agent bootstrap --validate --binaryPath bin/envoy
  agent bootstrap --diff`

func bootstrapCommand(c command) *cobra.Command {
	g := given{command: c}
	validate, running := false, ""
	cmd := &cobra.Command{
		Use:     "bootstrap [sidecar|ingress|router] [flags] [-- ENVOY-ARGUMENT...]",
		Short:   "Print the bootstrap that proxy would give to Envoy",
		Long:    bootstrapLong,
		Example: bootstrapExample,
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			g.arguments(cmd, args)
			_, config, err := g.config()
			if err != nil {
				return err
			}
			config.Identity.StandIn = true
			p, err := proxy.New(cmd.Context(), config)
			if err != nil {
				return usageOf(err)
			}
			for _, d := range p.Derived() {
				if d.Needs != "" && config.Source.Custom.Path == "" {
					fmt.Fprintf(c.said, "agent: proxy would not start: --%s: %s; here %s stands in\n", d.Setting, d.Needs, d.Value)
				}
			}
			out := cmd.OutOrStdout()
			switch {
			case validate:
				if err := p.Validate(cmd.Context()); err != nil {
					return err
				}
				_, err = fmt.Fprintln(out, "Envoy takes it")
				return err
			case cmd.Flags().Changed("diff"):
				lines, err := p.Diff(strings.TrimSpace(running))
				if err != nil {
					return fmt.Errorf("--diff: %w", err)
				}
				fmt.Fprint(out, lines)
				if lines != "" {
					return errDiffers
				}
				return nil
			}
			text, _, err := p.Bootstrap()
			if err == nil {
				_, err = fmt.Fprintln(out, strings.TrimSpace(string(text)))
			}
			return err
		},
	}
	g.register(cmd)
	cmd.Flags().BoolVar(&validate, "validate", false, "have Envoy say whether it takes it, and print nothing else")
	cmd.Flags().StringVar(&running, "diff", "",
		"print how it differs from the one of the newest epoch in configPath, or from a file or directory: --diff=PATH")
	cmd.Flags().Lookup("diff").NoOptDefVal = " "
	cmd.MarkFlagsMutuallyExclusive("validate", "diff")
	return cmd
}

var errDiffers = errors.New("the bootstraps differ")
