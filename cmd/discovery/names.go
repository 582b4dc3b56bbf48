package main

import (
	"strings"

	"github.com/pilotlight/pilotlight/discovery/plane"
)

// twoNames reports whether a text is two names with a slash between them.
func twoNames(text string) bool {
	namespace, name, found := strings.Cut(text, "/")
	return found && namespace != "" && name != "" && !strings.Contains(name, "/")
}

// nameOf returns the names of a text NAMESPACE/NAME; none of an empty one.
func nameOf(text string) plane.Name {
	namespace, name, _ := strings.Cut(text, "/")
	return plane.Name{Namespace: namespace, Name: name}
}

func namesOf(texts []string) (out []plane.Name) {
	for _, text := range texts {
		out = append(out, nameOf(text))
	}
	return out
}
