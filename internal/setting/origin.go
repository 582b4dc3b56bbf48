package setting

import (
	"errors"
	"fmt"
	"strconv"
)

// Source is one of the places that a value can come from.
type Source string

// The sources, the one that counts first.
const (
	Flag     Source = "flag"
	Variable Source = "variable"
	File     Source = "file"
	Default  Source = "default"
)

// Origin says where a value came from.
type Origin struct {
	Name   string // as its giver wrote it: "--statusPort", "PILOTLIGHT_STATUS_PORT", "agent.yaml:7: statusPort"
	Source Source
}

// Set reports whether the value was given.
func (o Origin) Set() bool { return o.Source != Default && o.Source != "" }

// Origins are the settings' by name.
type Origins map[string]Origin

// Fault is what is wrong with a value by reasons that a Kind cannot know. It reads like any other.
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
