package file

import (
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/config"
)

// WithConfigMaps adds the problems of ConfigMaps with settings of the mesh, which serve reads with --meshConfigMap, in the
// place of those that say that a ConfigMap is ignored. Only files with such a problem are read again.
func WithConfigMaps(problems []config.Problem, files []File) []config.Problem {
	ignored := func(p config.Problem) bool {
		return p.Severity == config.Warning && strings.HasPrefix(p.Message, "ConfigMap of v1 ")
	}
	has := map[string]bool{}
	for _, p := range problems {
		has[p.File] = has[p.File] || ignored(p)
	}
	for _, f := range files {
		if !has[f.Name] {
			continue
		}
		for _, found := range config.ConfigMaps(f.Name, f.Data) {
			problems = slices.DeleteFunc(problems, func(p config.Problem) bool { return p.File == f.Name && p.Line == found.Line && ignored(p) })
			problems = append(problems, found.Problems...)
		}
	}
	return problems
}
