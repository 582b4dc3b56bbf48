package plane

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/inject"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/internal/safefile"
)

// maxInjection bounds the files of the webhook's configuration and template, in bytes.
const maxInjection = 16 << 20

// Injector returns what injects by the files of the flags --config and --template; "" is the default of each. They beat domain and native.
func Injector(configFile, templateFile, domain string, native bool) (*inject.Injector, error) {
	var text []byte
	var err error
	if configFile != "" {
		if text, err = safefile.Read(configFile, maxInjection); err != nil {
			return nil, err
		}
	}
	c, err := inject.ReadConfig(string(text))
	if err != nil {
		return nil, fmt.Errorf("--config %s: %w", configFile, err)
	}
	if c.NativeSidecar == nil {
		c.NativeSidecar = &native
	}
	c.ClusterDomain = cmp.Or(c.ClusterDomain, domain)
	if templateFile == "" {
		return inject.New(c, inject.DefaultTemplate)
	}
	text, err = safefile.Read(templateFile, maxInjection)
	if err != nil {
		return nil, err
	}
	i, err := inject.New(c, string(text))
	if err != nil {
		return nil, fmt.Errorf("--template %s: %w", templateFile, err)
	}
	return i, nil
}

// MeshOfFiles returns the mesh of files with objects and a file of MeshConfig, "" for none, for what they set for proxies, with
// their problems, of MeshConfig only those about proxies.
func MeshOfFiles(paths []string, meshFile string, stdin io.Reader) (*model.Mesh, []config.Problem, error) {
	files, err := file.ReadEach(paths, stdin)
	if err != nil {
		return nil, nil, err
	}
	objects, problems := file.Check(files)
	if meshFile != "" {
		o, found := file.ReadSettings("MeshConfig", meshFile)
		if o != nil {
			objects = append(objects, o)
		}
		problems = append(problems, slices.DeleteFunc(found, func(p config.Problem) bool {
			return p.Severity != config.Error && !strings.HasPrefix(p.Path, "defaultConfig.")
		})...)
	}
	if config.HasErrors(problems) {
		return nil, problems, errors.New("configuration has errors: what it says is not known")
	}
	return model.New(slices.Values([]model.Group{{Objects: objects}})), problems, nil
}

// LayersOfFiles returns what such files set for the proxies of Pods, with their problems; nil if there are none.
func LayersOfFiles(paths []string, meshFile string, stdin io.Reader) (inject.Layers, []config.Problem, error) {
	if len(paths) == 0 && meshFile == "" {
		return nil, nil, nil
	}
	mesh, problems, err := MeshOfFiles(paths, meshFile, stdin)
	if err != nil {
		return nil, problems, err
	}
	return func(namespace string, labels map[string]string) ([]inject.Layer, error) {
		return Layers(mesh, namespace, labels)
	}, problems, nil
}
