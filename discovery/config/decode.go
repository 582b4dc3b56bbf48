package config

import (
	"fmt"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/internal/spelling"
)

// Decode reads the objects of a file: YAML of any number of documents, or JSON. It returns those without an error, and
// everything that is wrong, by line. file is what the problems and the objects' origins call the file.
func Decode(file string, data []byte) ([]*model.Object, []Problem) {
	var objects []*model.Object
	var problems []Problem
	first := map[string]*model.Object{}
	roots, fault := documents(data)
	for _, root := range unpack(roots) {
		o, found := decodeObject(root)
		problems = append(problems, found...)
		if o == nil {
			continue
		}
		o.Origin.File = file
		if twin, ok := first[o.Key()]; ok {
			problems = append(problems, Again(o, twin))
			continue
		}
		first[o.Key()] = o
		objects = append(objects, o)
	}
	if fault != nil {
		problems = append(problems, *fault)
	}
	for i := range problems {
		problems[i].File = file
	}
	byLine(problems)
	return objects, problems
}

// Again is the error of an object that another one already is.
func Again(o, first *model.Object) Problem {
	return Problem{
		File: o.Origin.File, Line: o.Origin.Line, Severity: Error, Object: title(o.Meta),
		Message: fmt.Sprintf("is declared already at %s", first.Origin),
	}
}

// title is how problems name an object: "VirtualService default/reviews".
func title(m model.Meta) string {
	if m.Name == "" {
		return m.Kind
	}
	return m.Kind + " " + m.Namespace + "/" + m.Name
}

// decodeObject returns nil where the object has an error or is not served.
func decodeObject(root *yaml.Node) (*model.Object, []Problem) {
	e, problems := readEnvelope(root)
	k, served := kindOf(e.apiVersion, e.kind)
	switch {
	case served:
	case e.apiVersion != "" && e.kind != "": // whatever else is in it is not ours to judge
		return nil, []Problem{notServed(e)}
	default:
		return nil, problems
	}
	spec := k.spec()
	faults, dropped := decodeBody(k, e.spec, e.specLine, spec)
	problems = append(problems, faults...)
	for i := range problems {
		problems[i].Object = title(e.meta)
	}
	if dropped || HasErrors(problems) {
		return nil, problems
	}
	return &model.Object{Meta: e.meta, Spec: spec}, problems
}

// decodeBody fills spec from a node and says what is wrong with it, and whether it is to be left out.
func decodeBody(k kind, node *yaml.Node, line int, spec proto.Message) (faults []Problem, dropped bool) {
	found, faults := decodeSpec(node, line, spec)
	if HasErrors(faults) { // a rule about a value that was not read would mislead
		return faults, false
	}
	var r report
	k.rules(field{&r, "spec"}, spec)
	if !r.dropped {
		k.support(field{&r, "spec"}, spec)
	}
	for _, p := range r.problems {
		p.Line = found[found.find(p.Path)].line
		faults = append(faults, p)
	}
	return faults, r.dropped
}

func notServed(e envelope) Problem {
	message := fmt.Sprintf("%s of %s is not supported, ignored", e.kind, e.apiVersion)
	if near := spelling.Nearest(e.kind, kindNames()); near != "" && near != e.kind {
		message += fmt.Sprintf(", did you mean %s?", near)
	}
	return Problem{Line: e.meta.Origin.Line, Severity: Warning, Object: title(e.meta), Message: message}
}
