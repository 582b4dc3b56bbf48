package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/flight"
	"github.com/pilotlight/pilotlight/bootstrap"
)

func bootstrapCommand(c command) *cobra.Command {
	g := given{command: c}
	validate, running := false, ""
	cmd := &cobra.Command{
		Use:   "bootstrap [sidecar|ingress|router] [flags] [-- ENVOY-ARGUMENT...]",
		Short: "Print the bootstrap that proxy would give to Envoy",
		Long: `Print the bootstrap that proxy, with the same settings, would give to Envoy; less the admin, which each epoch has its own.

With --diff, print how it differs from the bootstrap of the Envoy that runs, secrets masked: "-" is what runs, "+" is what would.
Exit status 1 if it differs.`,
		Example: `  agent bootstrap router --config /etc/istio/agent.yaml
  agent bootstrap --validate --binaryPath bin/envoy
  agent bootstrap --diff`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			g.arguments(cmd, args)
			s, role, err := g.settings()
			if err != nil {
				return err
			}
			p, err := newProxy(cmd.Context(), g, s, role, false)
			if err != nil {
				return err
			}
			if validate {
				return p.validate(cmd.Context())
			}
			if cmd.Flags().Changed("diff") {
				return p.diff(running)
			}
			text, _, err := s.bootstrapText(p.params)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.stdout, strings.TrimSpace(string(text)))
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

// validate asks the real Envoy, with the arguments that it would be started with.
func (p *proxy) validate(ctx context.Context) error {
	s := p.settings
	binary, err := envoy.Find(s.binaryPath)
	if err != nil {
		return fmt.Errorf("%s %s: %w", s.origins["binaryPath"].Name, s.binaryPath, err)
	}
	dir, err := os.MkdirTemp("", "agent-bootstrap-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	text, format, err := s.bootstrapText(withSecretsIn(p.params, dir))
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "bootstrap."+format)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	if err := envoy.Validate(ctx, binary, path, s.options()); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.stdout, "Envoy takes it")
	return err
}

var errDiffers = errors.New("the bootstraps differ")

// diff compares what runs with what would run there.
func (p *proxy) diff(at string) error {
	path, err := newestBootstrap(strings.TrimSpace(at), p.settings.configPath)
	if err != nil {
		return fmt.Errorf("--diff: %w", err)
	}
	text, format, err := p.settings.bootstrapText(withSecretsIn(p.params, filepath.Dir(path)))
	if err != nil {
		return err
	}
	if format != "json" || filepath.Ext(path) != ".json" {
		return fmt.Errorf("--diff: compares JSON, and one of the two is YAML")
	}
	running, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--diff: %w", err)
	}
	if running, err = withoutAdmin(running); err != nil {
		return fmt.Errorf("--diff: parse %s: %w", path, err)
	}
	if text, err = withoutAdmin(text); err != nil {
		return fmt.Errorf("--diff: %w", err)
	}
	lines, err := bootstrap.Diff(running, text, flight.Mask)
	if err != nil || lines == "" {
		return err
	}
	fmt.Fprint(p.stdout, lines)
	return errDiffers
}

// newestBootstrap finds what the newest epoch runs in a directory; a file is it itself.
func newestBootstrap(at, configPath string) (string, error) {
	if at == "" {
		at = configPath
	}
	if info, err := os.Stat(at); err != nil || !info.IsDir() {
		return at, err
	}
	found, _ := filepath.Glob(filepath.Join(at, "envoy-rev*")) // its pattern is right
	newest, epoch := "", -1
	for _, path := range found {
		name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "envoy-rev")); err == nil && n > epoch {
			newest, epoch = path, n
		}
	}
	if newest == "" {
		return "", fmt.Errorf("%s: no Envoy runs there: it has no envoy-revN.json", at)
	}
	return newest, nil
}

func withoutAdmin(text []byte) ([]byte, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		return nil, err
	}
	delete(keys, "admin")
	return json.Marshal(keys)
}
