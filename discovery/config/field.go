package config

import (
	"fmt"
	"strings"
)

// report collects the problems that rules find in one object.
type report struct {
	tally
	places    places
	read      func() places // finds places that are not known yet: few objects need them
	index     index
	regexes   map[string]string // the faults of regular expressions that were read
	namespace string            // of the object
	dryRun    bool              // the object is a policy that keeps nobody out
	size      int               // of the programs of these, together
	ended     func() error      // not nil once nobody waits for the verdict
	steps     int               // fields, items and keys at which rules looked: what judging the object cost
}

// newPlaceless returns a report that asks whether a part has faults, and not at which lines.
func newPlaceless() *report { return &report{read: func() places { return places{{}} }} }

// done reports whether the object is not to be judged any further.
func (r *report) done() bool { return r.ended != nil && r.ended() != nil }

// found returns the place of a field, or the nearest place above it that the file has: rules also report missing
// fields. whole is whether it is the place of the field itself.
func (r *report) found(w *way) (at int, whole bool) {
	if r.index == nil {
		if r.places == nil {
			r.places = r.read()
		}
		r.index = r.places.index()
	}
	r.steps++
	if w.up == nil {
		return 0, true
	}
	above, whole := r.found(w.up)
	if !whole {
		return above, false
	}
	if at, ok := r.index[below{above, w.name, w.item}]; ok {
		return at, true
	}
	return above, false
}

// field is the place in an object to which a rule applies.
type field struct {
	report *report
	way    *way
}

// root is the field that has all others.
func (r *report) root() field { return field{r, &way{step: step{name: "spec"}}} }

// at is a field of a message, by its JSON name.
func (f field) at(name string) field { return f.down(step{name: name}) }

// key is the value of a map's key, which the author of the object chose.
func (f field) key(name string) field { return f.down(step{name: name, key: true}) }

func (f field) item(i int) field { return f.down(step{item: i + 1}) }

func (f field) down(s step) field {
	f.report.steps++
	return field{f.report, &way{f.way, s}}
}

// given reports whether the file has the field: protobuf does not distinguish 0 from a missing value.
func (f field) given() bool {
	_, whole := f.report.found(f.way)
	return whole
}

// errorf adds an error, which refuses the object.
func (f field) errorf(format string, args ...any) { f.add(Error, format, args) }

// warnf adds a warning about a setting that is not supported or has no effect.
func (f field) warnf(format string, args ...any) { f.add(Warning, format, args) }

func (f field) add(severity Severity, format string, args []any) {
	if !f.report.next(severity) {
		return
	}
	at, _ := f.report.found(f.way)
	f.report.keep(Problem{
		Line: f.report.places[at].line, Severity: severity, Path: f.way.String(), Message: fmt.Sprintf(format, short(args)...),
	})
}

// maxValue is how many bytes of a value a message shows.
const maxValue = 300

// short cuts the texts among the arguments of a message.
func short(args []any) []any {
	for i, a := range args {
		if err, is := a.(error); is {
			a = err.Error()
		}
		if s, is := a.(string); is && len(s) > maxValue {
			args[i] = strings.ToValidUTF8(s[:maxValue], "") + "…"
		}
	}
	return args
}
