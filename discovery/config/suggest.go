package config

import (
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/internal/spelling"
)

// suggest ends the message about an unknown name: with the known one that it is nearest to, else with all of them.
func suggest(name string, known []string) string {
	if near := spelling.Nearest(name, known); near != "" {
		return `, did you mean "` + near + `"?`
	}
	if len(known) == 0 {
		return ""
	}
	known = slices.Sorted(slices.Values(known))
	return ", want one of " + strings.Join(known, ", ")
}
