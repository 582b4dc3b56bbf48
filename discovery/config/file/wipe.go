package file

import (
	"fmt"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// hold is the reason why objects are served that are no longer in any file: so many disappeared at once that it may be
// an accident. They are removed when the time is over, and stay if the files return.
type hold struct {
	since, until time.Time // zero for no hold
	what         string    // the objects that disappeared, as a text
	asked        bool      // an operator has asked to end it
}

// removeMissing removes objects that are no longer in any file, unless they must be held. It returns a text about
// objects that are held from now on, or no longer, and whether objects are removed that were held. With the last object the
// server holds them instead, since it remembers over a restart what there was: see model.Update's Emptied.
func (s *state) removeMissing(groups map[string]model.Group, now time.Time) (message string, certain bool) {
	what := ""
	if len(s.missing) > 0 && s.wipeDelay > 0 {
		what = wipe(s.objects, s.missing)
	}
	was := s.held
	switch {
	case s.emptied():
		s.held = hold{}
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
		delete(s.twins, key)
		s.kinds[objectKind(key)]--
		groups[key] = model.Group{}
	}
	clear(s.missing)
	return message, certain
}

// emptied reports whether the files are left without any object, though some may be served still.
func (s *state) emptied() bool {
	return len(s.claims) == 0 && len(s.faulty) == 0 && len(s.missing) == len(s.objects)
}

// wipe returns a text about the objects that disappear, if they are a mass as of any source; else "".
func wipe(objects map[string]*model.Object, gone map[string]bool) string {
	var losses model.Losses
	had := model.NewCensus()
	for key, o := range objects {
		group := model.Group{Objects: []*model.Object{o}}
		if had.Count(group, 1); gone[key] {
			losses.Add(group, model.Group{})
		}
	}
	return losses.Mass("services", had, nil, false)
}
