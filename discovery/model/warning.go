package model

import (
	"fmt"
	"slices"
	"strings"
)

// Warning is a doubt about an object that shows when it is read, without any other object: a field that is not
// supported, or one that has no effect. The object is served.
type Warning struct {
	Path    string `json:"Path"` // "spec.endpoints"; empty for the whole object
	Message string `json:"Message"`
}

// Warnings are those of one object. They are immutable.
type Warnings []Warning

// Bounds of what is kept of the warnings of one object: it can have one for each of its fields, and a message repeats the
// value that it is about. validate and the log of the source have all of them.
const (
	maxWarnings    = maxNotes / 2 // the notes of the whole mesh are named beside them
	maxWarningText = 1024         // bytes of a path, and of a message
)

// WarningsOf returns what an Object keeps of warnings; nil for none. Of what was kept once it keeps everything.
func WarningsOf(all []Warning) *Warnings {
	if len(all) == 0 {
		return nil
	}
	named := all
	if len(all) > maxWarnings+1 {
		named = all[:maxWarnings]
	}
	kept := make(Warnings, 0, min(len(all), maxWarnings+1))
	for _, w := range named {
		kept = append(kept, Warning{shortened(w.Path), shortened(w.Message)})
	}
	if more := len(all) - len(named); more > 0 {
		kept = append(kept, Warning{Message: fmt.Sprintf("has %d more warnings, which are not named here: discovery validate names them", more)})
	}
	return &kept
}

func shortened(text string) string {
	if len(text) <= maxWarningText {
		return text
	}
	const end = "…"
	return strings.ToValidUTF8(text[:maxWarningText-len(end)], "") + end
}

// All returns the warnings; it may be called on nil.
func (w *Warnings) All() []Warning {
	if w == nil {
		return nil
	}
	return *w
}

// Same reports whether both have the same warnings; both may be nil.
func (w *Warnings) Same(other *Warnings) bool {
	return w == other || slices.Equal(w.All(), other.All())
}

// warned adds a note for each warning of an object.
func (j *judge) warned(o *Object) {
	for _, w := range o.Warnings.All() {
		j.notes = append(j.notes, Note{Code: Warned, Meta: o.Meta, Path: w.Path, Message: w.Message})
	}
}
