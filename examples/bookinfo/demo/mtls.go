package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ingress is the gateway that has the page where the sidecars take mutual TLS alone.
const ingress = "ingress"

// token is a command that prints a join token, and the file for it.
type token struct {
	argv []string
	file string
}

func (o options) caDir() string { return filepath.Join(o.run, "ca") }

func (o options) tokenFile(account string) string { return filepath.Join(o.caDir(), account+".token") }

// tokens are those of the accounts, one for all instances of a service.
func (o options) joinTokens() (out []token) {
	for i, w := range workloads {
		if i == 0 || workloads[i-1].app != w.app {
			out = append(out, o.token(w.app))
		}
	}
	return append(out, o.token(ingress))
}

func (o options) token(account string) token {
	return token{[]string{
		filepath.Join(o.bin, "discovery"), "token", "create", "--namespace", "default", "--service-account", account, "--caDir", o.caDir(),
	}, o.tokenFile(account)}
}

func (o options) gateway() spec {
	return o.proxy(len(workloads), "router", ingress, ingress, fmt.Sprintf(`{"app":%q}`, ingress))
}

// makeTokens runs the commands, once discovery has made the authority.
func makeTokens(ctx context.Context, tokens []token) error {
	for _, t := range tokens {
		command := exec.CommandContext(ctx, t.argv[0], t.argv[1:]...)
		var stderr bytes.Buffer
		command.Stderr = &stderr
		text, err := command.Output()
		if err != nil {
			return fmt.Errorf("make %s: %w: %s", t.file, err, stderr.Bytes())
		}
		if err := os.WriteFile(t.file, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// strict is what to try with the policies, nil where there are none.
func (d *demo) strict() (map[string]string, error) {
	if !d.mtls {
		return nil, nil
	}
	policy, err := locate(filepath.Join(d.plan.config, "policies.yaml"), "principals:")
	return map[string]string{
		"Reviews": fmt.Sprintf("http://%s:%d/reviews/0", d.ip(2), servicePort), "Policy": policy,
		"Details": loopback(outboundPort + 1 + d.offset), "Productpage": loopback(outboundPort + d.offset),
	}, err
}
