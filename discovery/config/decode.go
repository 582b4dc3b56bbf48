package config

import (
	"fmt"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Decode reads the objects of a file: YAML of any number of documents, or JSON. It returns the objects without an
// error, and all problems, ordered by line. file is the name of the file in problems and in the origins of objects.
func Decode(file string, data []byte) ([]*model.Object, []Problem) {
	var objects []*model.Object
	var problems []Problem
	first := map[string]*model.Object{}
	var reader Reader
	for _, d := range Split(data) {
		for _, i := range reader.Read(d.Data) {
			i = i.At(file, d.Line)
			problems = append(problems, i.Problems...)
			if i.Object == nil {
				continue
			}
			if twin, ok := first[i.Key]; ok {
				if problems = append(problems, Duplicate(i.Object, twin)); model.StandIn(twin, i.Object) == nil {
					continue
				}
			} else {
				first[i.Key] = i.Object
			}
			objects = append(objects, i.Object)
		}
	}
	byLine(problems)
	return objects, problems
}

// Duplicate is the problem of an object that was declared before, as first: a warning if both are the same.
func Duplicate(o, first *model.Object) Problem {
	p := Problem{
		File: o.Origin.File, Line: o.Origin.Line, Severity: Error, Object: title(o.Meta),
		Message: fmt.Sprintf("is declared already at %s", first.Origin),
	}
	switch {
	case model.Twins(first, o):
		p.Severity = Warning
		p.Message += ", and both are the same: want one of them"
	case model.StandIn(first, o) != nil:
		p.Message += ": " + model.TwinEffect(first, o) + "; want another name, or only one of them"
	}
	return p
}

// title returns the name of an object in problems: "VirtualService default/reviews".
func title(m model.Meta) string {
	if m.Name == "" {
		return m.Kind
	}
	return m.Kind + " " + m.Namespace + "/" + m.Name
}

// decodeObject reads one object, if it is of a kind that is served.
func decodeObject(ended func() error, root *yaml.Node) Item {
	e, problems := readEnvelope(root)
	item := Item{Line: e.meta.Origin.Line}
	k, served := kindOf(e.apiVersion, e.kind)
	switch {
	case served:
	case e.apiVersion != "" && manifestVersion(e.kind) == e.apiVersion:
		return manifest(root, e, problems)
	case e.apiVersion != "" && e.kind != "": // the rest of it is not judged here
		var meant string
		meant, item.Key, item.Problems = foreign(e)
		if k, known := kindOf(bestOf(meant), meant); known && item.Key != "" && k.closed != nil {
			e.meta.Kind = meant
			spec := k.spec()
			faults, _ := (&report{ended: ended, namespace: e.meta.Namespace}).body(k, e, spec)
			item.Closed = k.closedObject(e.meta, spec, append(problems, faults...))
		}
		return item
	default:
		item.Problems = problems
		return item
	}
	if e.meta.Name != "" && e.meta.Namespace != "" {
		item.Key = e.meta.Key()
	}
	spec := k.spec()
	r := report{ended: ended, namespace: e.meta.Namespace, dryRun: e.meta.DryRun}
	faults, lines := r.body(k, e, spec)
	e.meta.Origin.Fields = lines
	problems = append(problems, faults...)
	for i := range problems {
		problems[i].Object = title(e.meta)
	}
	item.Problems = problems
	switch {
	case !HasErrors(problems):
		item.Object = &model.Object{Meta: e.meta, Spec: spec, Warnings: Warnings(problems)}
	case item.Key != "" && k.closed != nil:
		item.Closed = k.closedObject(e.meta, spec, problems)
	}
	return item
}

// closedObject returns the object that stands for one with these faults; nil if that one keeps nobody out.
func (k kind) closedObject(meta model.Meta, read proto.Message, faults []Problem) *model.Object {
	spec := k.closed(read, faults)
	if spec == nil {
		return nil
	}
	meta.Closed = true
	return &model.Object{Meta: meta, Spec: spec}
}

// body fills spec from a node. It returns its faults, and the lines of its fields.
func (r *report) body(k kind, e envelope, spec proto.Message) (faults []Problem, lines model.Lines) {
	lines, sound := decodeStraight(e.spec, e.specLine, e.meta.Origin.Line, spec)
	if !sound {
		proto.Reset(spec)
		found, faults := decodeSpec(e.spec, e.specLine, spec, r.done)
		if HasErrors(faults) { // a rule about a value that was not read would mislead
			return faults, ""
		}
		r.places, lines = found, found.lines(e.meta.Origin.Line)
	}
	r.read = func() places { return placesOf(e.spec, e.specLine, spec) }
	if r.done() {
		return nil, ""
	}
	k.rules(r.root(), spec)
	if r.done() {
		return nil, ""
	}
	bounded(r.root(), spec)
	if k.name != "AuthorizationPolicy" && k.name != "RequestAuthentication" { // their rules speak of what is not served
		k.support(r.root(), spec)
	}
	return r.all(e.specLine, "spec"), lines
}

// ClosedForm returns the object that stands for one of which only the name can be read; nil for kinds that keep nobody out.
func ClosedForm(kind, namespace, name string) *model.Object {
	k, known := kindOf(bestOf(kind), kind)
	if !known || k.closed == nil {
		return nil
	}
	return k.closedObject(model.Meta{Kind: kind, Namespace: namespace, Name: name}, k.spec(), []Problem{{Severity: Error, Path: "spec"}})
}
