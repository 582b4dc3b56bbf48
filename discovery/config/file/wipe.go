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

// fewest is how many services, or objects of a kind, must disappear at once to count as more than an edit.
const fewest = 3

// hold is the reason why objects are served that are no longer in any file: so many disappeared at once that it may be
// an accident. They are removed when the time is over, and stay if the files return.
type hold struct {
	since, until time.Time // zero for no hold
	what         string    // the objects that disappeared, as a text
	asked        bool      // an operator has asked to end it
}

// removeMissing removes objects that are no longer in any file, unless they must be held. It returns a text about
// objects that are held from now on, or no longer, and whether objects are removed that were held.
func (s *state) removeMissing(groups map[string]model.Group, now time.Time) (message string, certain bool) {
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
		return fmt.Sprintf("held for %s, for it may be an accident: %s gone at once", s.wipeDelay, what), false
	case was.asked:
		s.held = hold{}
		message, certain = "no longer held, as an operator has asked: "+what, true
	case now.Before(was.until):
		s.held.what = what
		return "", false
	default:
		s.held = hold{}
		message, certain = "no longer held, for the time is over: "+what, true
	}
	for key := range s.missing {
		delete(s.objects, key)
		s.kinds[objectKind(key)]--
		groups[key] = model.Group{}
	}
	clear(s.missing)
	return message, certain
}

// wipe returns a text about the objects that disappear, if they are more than half of all services, or all objects of a
// kind; else "".
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
