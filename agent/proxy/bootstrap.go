package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/flight"
	"github.com/pilotlight/pilotlight/bootstrap"
)

// Bootstrap returns the bootstrap for Envoy, without the admin, which differs for each epoch; format is its file's
// ending.
func (p *Proxy) Bootstrap() (text []byte, format string, err error) {
	return p.config.Source.bootstrap(p.params)
}

// Validate runs the real Envoy's validation of the bootstrap, with the arguments of a start.
func (p *Proxy) Validate(ctx context.Context) error {
	binary, err := p.findEnvoy()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "agent-bootstrap-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	text, format, err := p.config.Source.bootstrap(p.params)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "bootstrap."+format)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	return envoy.Validate(ctx, binary, path, p.config.recordsAt(filepath.Join(dir, secretsSocket)), p.config.Envoy)
}

// Diff compares the bootstrap with the one that runs, with secrets masked: lines that begin with "-" are in the running
// bootstrap, lines with "+" in the new one. at is a file, a directory with the bootstraps of epochs, or empty for the
// proxy's own directory.
func (p *Proxy) Diff(at string) (lines string, err error) {
	path, err := newestBootstrap(at, p.config.Dir.Path)
	if err != nil {
		return "", err
	}
	text, format, err := p.config.Source.bootstrap(p.params)
	if err != nil {
		return "", err
	}
	if format != "json" || filepath.Ext(path) != ".json" {
		return "", errors.New("compares JSON, and one of the two is YAML")
	}
	running, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if running, err = withoutAdmin(p.withoutToken(running)); err != nil {
		return "", fmt.Errorf("parse %s: %w", path, err)
	}
	if text, err = withoutAdmin(text); err != nil {
		return "", err
	}
	return bootstrap.Diff(running, text, flight.Mask)
}

// newestBootstrap returns the path of the newest epoch's bootstrap in a directory; if at is a file, it returns at.
func newestBootstrap(at, dir string) (string, error) {
	if at == "" {
		at = envoy.FindSlot(dir)
	}
	if info, err := os.Stat(at); err != nil || !info.IsDir() {
		return at, err
	}
	found, _ := filepath.Glob(filepath.Join(at, "envoy-rev*")) // the only error is a bad pattern
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

func (p *Proxy) findEnvoy() (string, error) {
	path, err := envoy.Find(p.config.Binary.Path)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", p.config.Binary.Name, p.config.Binary.Path, err)
	}
	return path, nil
}

// secretsSocket is the name of the socket of the agent's own SDS: see envoy.Slot.Socket.
const secretsSocket = "sds"

// withSecretsIn sets the path of that socket for a bootstrap that is only shown: the token of its name differs at each
// start.
func withSecretsIn(p bootstrap.Params, dir string) bootstrap.Params {
	p.SecretsSocket = filepath.Join(dir, secretsSocket+"-TOKEN.sock")
	return p
}

// withoutToken replaces the paths of the sockets in a bootstrap that runs by those that are shown.
func (p *Proxy) withoutToken(running []byte) []byte {
	for name, path := range map[string]string{secretsSocket: p.params.SecretsSocket, relaySocket: p.params.Discovery.Socket} {
		if shown, err := json.Marshal(path); err == nil {
			running = envoy.SocketPattern(name).ReplaceAllLiteral(running, shown)
		}
	}
	return running
}
