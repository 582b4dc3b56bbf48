package file

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// fewest is how many services, or objects of a kind, must go at once for that to be more than an edit.
const fewest = 3

// hold is why objects are served that are in no file any more: so many went at once that it may be an accident. They are
// removed when the time is over, and stay when the files are back.
type hold struct {
	since, until time.Time // zero for no hold
	what         string    // what went
}

// removeMissing removes objects that are in no file any more, unless they are to be held. It returns in words what is held from
// now on, or no longer.
func (s *state) removeMissing(groups map[string]model.Group, now time.Time) (message string) {
	what := ""
	if len(s.missing) > 0 && s.wipeDelay > 0 {
		what = wipe(s.objects, s.missing)
	}
	was := s.held
	switch {
	case what == "":
		s.held = hold{}
		if was.what != "" {
			message = "no longer held, for files are back: " + was.what
		}
	case was.what == "":
		s.held = hold{since: now, until: now.Add(s.wipeDelay), what: what}
		return fmt.Sprintf("held for %s, for it may be an accident: %s gone at once", s.wipeDelay, what)
	case now.Before(was.until):
		s.held.what = what
		return ""
	default:
		s.held = hold{}
		message = "no longer held, for the time is over: " + what
	}
	for key := range s.missing {
		delete(s.objects, key)
		s.kinds[objectKind(key)]--
		groups[key] = model.Group{}
	}
	clear(s.missing)
	return message
}

// wipe returns in words what goes, where it is more than half of all services, or all objects of a kind; else "".
func wipe(objects map[string]*model.Object, gone map[string]bool) string {
	hosts := map[string]bool{} // and whether an object that stays has it
	all, left := map[string]int{}, map[string]int{}
	for key, o := range objects {
		all[o.Kind]++
		if !gone[key] {
			left[o.Kind]++
		}
		if entry, ok := o.Spec.(*networking.ServiceEntry); ok {
			for _, host := range entry.Hosts {
				hosts[host] = hosts[host] || !gone[key]
			}
		}
	}
	lost := 0
	for _, stays := range hosts {
		if !stays {
			lost++
		}
	}
	var parts []string
	if lost >= fewest && 2*lost > len(hosts) {
		parts = append(parts, fmt.Sprintf("%d of %d services", lost, len(hosts)))
	}
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		if all[kind] >= fewest && left[kind] == 0 {
			parts = append(parts, fmt.Sprintf("all %d objects of kind %s", all[kind], kind))
		}
	}
	return strings.Join(parts, ", ")
}
