package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/bootstrap"
)

// config reads what Envoy shall run now.
func (p *proxy) config() (agent.Config, error) {
	binary, err := envoy.Fingerprint(p.binary)
	if err != nil {
		return agent.Config{}, err
	}
	text, format, err := p.settings.bootstrapText(p.params)
	return agent.Config{Bootstrap: string(text), Format: format, Binary: binary}, err
}

// bootstrapText is the file that was given, as it is; else the template that was given, or the role's own, rendered,
// with the override over it. format is the file's ending.
func (s *settings) bootstrapText(params bootstrap.Params) (text []byte, format string, err error) {
	if path := s.customConfigFile; path != "" {
		text, err := s.read("customConfigFile", path)
		return text, strings.TrimPrefix(filepath.Ext(path), "."), err
	}
	if path := s.templateFile; path != "" {
		template, err := s.read("templateFile", path)
		if err != nil {
			return nil, "", err
		}
		if text, err = bootstrap.RenderTemplate(string(template), params); err != nil {
			return nil, "", fmt.Errorf("%s %s: %w", s.origins["templateFile"].Name, path, err)
		}
	} else if text, err = bootstrap.Render(params); err != nil {
		return nil, "", err
	}
	text, err = s.overridden(text)
	return text, "json", err
}

func (s *settings) overridden(text []byte) ([]byte, error) {
	path := s.bootstrapOverride
	if path == "" {
		return text, nil
	}
	override, err := s.read("bootstrapOverride", path)
	if err != nil {
		return nil, err
	}
	if override, err = asJSON(path, override); err == nil {
		text, err = bootstrap.Merge(text, override)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", s.origins["bootstrapOverride"].Name, path, err)
	}
	return text, nil
}

// longestInput is the most that is read of a file that a bootstrap is made of, in bytes.
const longestInput = 64 << 20

func (s *settings) read(setting, path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.origins[setting].Name, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, longestInput+1))
	if err == nil && len(text) > longestInput {
		err = fmt.Errorf("read %s: more than %d bytes", path, longestInput)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.origins[setting].Name, err)
	}
	return text, nil
}

// asJSON takes what is YAML by its name for such. JSON stays as it is, for faults to be found where they are.
func asJSON(path string, text []byte) ([]byte, error) {
	if ext := filepath.Ext(path); ext != ".yaml" && ext != ".yml" {
		return text, nil
	}
	var value map[string]any
	if err := yaml.Unmarshal(text, &value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

// inputs are the files that a bootstrap is made of.
func (s *settings) inputs() (paths []string) {
	for _, path := range []string{s.customConfigFile, s.templateFile, s.bootstrapOverride} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// desire keeps the supervisor, which has first already, told of what Envoy shall run: at each tick of the watched files,
// and when certificates need a new epoch. What cannot be read is said once, and changes nothing.
func (p *proxy) desire(ctx context.Context, first agent.Config, ticks <-chan struct{}, certificates <-chan string, configCh chan<- agent.Config) {
	desired, said := first, ""
	for {
		for changed := false; !changed; {
			next := desired
			select {
			case <-ctx.Done():
				return
			case next.Certificates = <-certificates:
			case <-ticks:
				read, err := p.config()
				if err != nil {
					if said != err.Error() {
						p.log.Warn("read what Envoy shall run; what runs, stays", "error", err)
					}
					said = err.Error()
					continue
				}
				said = ""
				read.Certificates = desired.Certificates
				next = read
			}
			changed = next != desired
			desired = next
		}
		select {
		case configCh <- desired:
		case <-ctx.Done():
			return
		}
	}
}
