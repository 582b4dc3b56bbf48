package config

import (
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/internal/spelling"
)

// suggestion ends the message about an unknown name. It is made only for a problem that is named.
type suggestion struct {
	name  string
	known []string
}

func suggest(name string, known []string) suggestion { return suggestion{name, known} }

// String returns the known name that is nearest to the unknown one, else all of them.
func (s suggestion) String() string {
	if near := spelling.Nearest(s.name, s.known); near != "" {
		return `, did you mean "` + near + `"?`
	}
	if len(s.known) == 0 {
		return ""
	}
	return ", want one of " + strings.Join(slices.Sorted(slices.Values(s.known)), ", ")
}
