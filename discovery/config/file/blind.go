package file

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// blind returns a group for each file that never had a form whose objects were all known: discovery may have served
// objects of it before its start.
func (s *state) blind() map[string]model.Group {
	out := map[string]model.Group{}
	for name := range s.faulty {
		f := s.files[name]
		if !f.blind {
			continue
		}
		group := model.Group{Unread: true}
		for _, p := range f.problems {
			if p.Severity == config.Error && len(group.Faults) == 0 {
				group.Faults = []string{fmt.Sprintf("line %d: %s", p.Line, strings.TrimSpace(p.Path+" "+p.Message))}
			}
		}
		out["file "+name] = group
	}
	return out
}

// compare returns the groups that differ, empty ones for those that are gone.
func compare(was, now map[string]model.Group) map[string]model.Group {
	out := map[string]model.Group{}
	for key, group := range now {
		if !slices.Equal(was[key].Faults, group.Faults) {
			out[key] = group
		}
	}
	for key := range was {
		if _, is := now[key]; !is {
			out[key] = model.Group{}
		}
	}
	return out
}

// refused returns the keys of objects that have an error, and no good form that was read.
func (s *state) refused() []string {
	out := map[string]bool{}
	for name := range s.faulty {
		for key := range s.files[name].refused {
			if s.objects[key] == nil {
				out[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(out))
}
