package setting

import (
	"errors"
	"fmt"
	"strconv"
)

// Source is one of the places that a value can come from.
type Source string

// The sources, in the order of their precedence.
const (
	Flag     Source = "flag"
	Variable Source = "variable"
	File     Source = "file"
	Default  Source = "default"
)

// Origin is the origin of a value.
type Origin struct {
	Name   string // as in the source: "--statusPort", "PILOTLIGHT_STATUS_PORT", "agent.yaml:7: statusPort"
	Source Source
}

// Set reports whether the value was given.
func (o Origin) Set() bool { return o.Source != Default && o.Source != "" }

// Origins are the origins of the settings, by name.
type Origins map[string]Origin

// Fault returns the error for a value that its Kind allows and that is wrong for another reason. It has the form of all
// other faults.
func (o Origins) Fault(name string, value any, want string) error {
	at := o[name].Name
	if at == "" {
		at = "--" + name
	}
	return fmt.Errorf("%s %v: want %s", at, value, want)
}

func (s Setting) fault(o Origin, text string) error {
	if text == "" {
		text = `""`
	} else if strconv.Quote(text) != `"`+text+`"` {
		text = strconv.Quote(text)
	}
	message := o.Name + " " + text + ": want " + s.Kind.Allowed
	if s.Kind.Example != "" {
		message += ", such as " + s.Kind.Example
	}
	return errors.New(message)
}
