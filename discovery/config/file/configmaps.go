package file

import (
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/config"
)

// WithConfigMaps adds the problems of ConfigMaps with settings of the mesh, which serve reads with --meshConfigMap, in the
// place of those that say that a ConfigMap is ignored.
func WithConfigMaps(problems []config.Problem, files []File) []config.Problem {
	for _, f := range files {
		for _, found := range config.ConfigMaps(f.Name, f.Data) {
			problems = slices.DeleteFunc(problems, func(p config.Problem) bool {
				return p.File == f.Name && p.Line == found.Line && p.Severity == config.Warning && strings.HasPrefix(p.Message, "ConfigMap of v1 ")
			})
			problems = append(problems, found.Problems...)
		}
	}
	return problems
}
