package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/internal/safefile"
)

// Source lists the inputs of a bootstrap, beside its parameters. The zero Source is the role's own template.
type Source struct {
	Custom   Input // a bootstrap to use unchanged
	Template Input // used instead of the role's own
	Override Input // JSON or YAML, merged over the rendered bootstrap
}

// own reports whether the bootstrap is not the one of the role.
func (s Source) own() bool { return s.Custom.Path != "" || s.Template.Path != "" }

// given reports whether a file of the operator's has a part in the bootstrap.
func (s Source) given() bool { return len(s.paths()) > 0 }

// paths returns the files that a bootstrap is made of.
func (s Source) paths() (paths []string) {
	for _, input := range []Input{s.Custom, s.Template, s.Override} {
		if input.Path != "" {
			paths = append(paths, input.Path)
		}
	}
	return paths
}

// bootstrap returns the bootstrap's text; format is its file's ending.
func (s Source) bootstrap(params bootstrap.Params) (text []byte, format string, err error) {
	if s.Custom.Path != "" {
		text, err := s.Custom.read()
		return text, strings.TrimPrefix(filepath.Ext(s.Custom.Path), "."), err
	}
	if s.Template.Path != "" {
		template, err := s.Template.read()
		if err != nil {
			return nil, "", err
		}
		if text, err = bootstrap.RenderTemplate(string(template), params); err != nil {
			return nil, "", fmt.Errorf("%s %s: %w", s.Template.Name, s.Template.Path, err)
		}
	} else if text, err = bootstrap.Render(params); err != nil {
		return nil, "", err
	}
	text, err = s.overridden(text)
	return text, "json", err
}

func (s Source) overridden(text []byte) ([]byte, error) {
	if s.Override.Path == "" {
		return text, nil
	}
	override, err := s.Override.read()
	if err != nil {
		return nil, err
	}
	if override, err = asJSON(s.Override.Path, override); err == nil {
		text, err = bootstrap.Merge(text, override)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", s.Override.Name, s.Override.Path, err)
	}
	return text, nil
}

// asJSON converts a file to JSON if its name ends in .yaml or .yml. JSON stays unchanged, so that faults are reported
// at their place in the file.
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

// longestInput is the size limit of a bootstrap, and of each file that it is made of, in bytes. The agent keeps the bootstrap in memory, and hands up to
// three of them to the next image of the agent, whose state has at most 64 MiB.
const longestInput = 16 << 20

func (i Input) read() ([]byte, error) {
	text, err := safefile.Read(i.Path, longestInput)
	if errors.Is(err, safefile.ErrTooLong) {
		return nil, fmt.Errorf("%s: %w: have Envoy get the rest by path_config_source, or from discovery", i.Name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", i.Name, err)
	}
	return text, nil
}
