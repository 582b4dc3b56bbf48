package config

import (
	"fmt"
	"strconv"
)

// report collects what rules have to say about one object.
type report struct {
	places   places
	read     func() places // finds them, where they are not known yet: few objects need them
	problems []Problem
}

// found returns where the object's nodes are.
func (r *report) found() places {
	if r.places == nil {
		r.places = r.read()
	}
	return r.places
}

// field is a place in an object that a rule speaks about, by its path of JSON names: "spec.http[0].timeout".
type field struct {
	report *report
	path   string
}

func (f field) at(name string) field { return field{f.report, f.path + "." + name} }

func (f field) item(i int) field { return field{f.report, f.path + "[" + strconv.Itoa(i) + "]"} }

// given reports whether the file has the field: protobuf does not tell 0 from nothing.
func (f field) given() bool { return f.report.found().given(f.path) }

// errorf refuses the object.
func (f field) errorf(format string, args ...any) { f.add(Error, format, args) }

// warnf tells what the object asks for and will not get.
func (f field) warnf(format string, args ...any) { f.add(Warning, format, args) }

func (f field) add(severity Severity, format string, args []any) {
	f.report.problems = append(f.report.problems, Problem{
		Severity: severity, Path: f.path, Message: fmt.Sprintf(format, args...),
	})
}
