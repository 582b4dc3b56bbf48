package config

import (
	"fmt"
	"strconv"
)

// report collects the problems that rules find in one object.
type report struct {
	places   places
	read     func() places // finds places that are not known yet: few objects need them
	problems []Problem
}

// found returns the places of the object's nodes.
func (r *report) found() places {
	if r.places == nil {
		r.places = r.read()
	}
	return r.places
}

// field is the place in an object to which a rule applies, by its path of JSON names: "spec.http[0].timeout".
type field struct {
	report *report
	path   string
}

func (f field) at(name string) field { return field{f.report, f.path + "." + name} }

func (f field) item(i int) field { return field{f.report, f.path + "[" + strconv.Itoa(i) + "]"} }

// given reports whether the file has the field: protobuf does not distinguish 0 from a missing value.
func (f field) given() bool { return f.report.found().given(f.path) }

// errorf adds an error, which refuses the object.
func (f field) errorf(format string, args ...any) { f.add(Error, format, args) }

// warnf adds a warning about a setting that is not supported or has no effect.
func (f field) warnf(format string, args ...any) { f.add(Warning, format, args) }

func (f field) add(severity Severity, format string, args []any) {
	f.report.problems = append(f.report.problems, Problem{
		Severity: severity, Path: f.path, Message: fmt.Sprintf(format, args...),
	})
}
