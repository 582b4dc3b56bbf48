package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/internal/spelling"
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
		meant, item.Key, item.Problems = unservedKind(e)
		if k, known := kindOf(bestOf(meant), meant); known && item.Key != "" && k.failClosed != nil {
			e.meta.Kind = meant
			spec := k.spec()
			faults, _ := (&report{ended: ended, namespace: e.meta.Namespace}).body(k, e, spec)
			item.Closed = k.failClosedObject(e.meta, spec, append(problems, faults...))
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
	case item.Key != "" && k.failClosed != nil:
		item.Closed = k.failClosedObject(e.meta, spec, problems)
	}
	return item
}

// failClosedObject returns the object that stands for one with these faults; nil if that one keeps nobody out.
func (k kind) failClosedObject(meta model.Meta, read proto.Message, faults []Problem) *model.Object {
	spec := k.failClosed(read, faults)
	if spec == nil {
		return nil
	}
	meta.Closed = true
	return &model.Object{Meta: meta, Spec: spec}
}

// body fills spec from a node. It returns its faults, and the lines of its fields.
func (r *report) body(k kind, e envelope, spec proto.Message) (faults []Problem, lines model.Lines) {
	lines, sound := decodeFast(e.spec, e.specLine, e.meta.Origin.Line, spec)
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
	if !known || k.failClosed == nil {
		return nil
	}
	meta := model.Meta{Kind: kind, Namespace: namespace, Name: name}
	return k.failClosedObject(meta, k.spec(), []Problem{{Severity: Error, Path: "spec"}})
}

// envelope holds the fields that every object of Kubernetes' form has.
type envelope struct {
	apiVersion, kind string
	line             map[string]int // of apiVersion and kind
	meta             model.Meta
	spec             *yaml.Node
	specLine         int
}

// objectName is Kubernetes' DNS-1123 subdomain.
var objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// readEnvelope reads everything but the spec.
func readEnvelope(root *yaml.Node) (envelope, []Problem) {
	r := envelopeReader{reader: newReader(), envelope: envelope{specLine: root.Line, line: map[string]int{}}}
	r.meta.Namespace = "default"
	r.meta.Origin.Line = root.Line
	r.spec = &yaml.Node{Kind: yaml.MappingNode, Line: root.Line} // an object without a spec counts as one with an empty spec
	metadata := entry{value: &yaml.Node{Kind: yaml.MappingNode}, line: root.Line}
	for _, e := range r.object(root, "") {
		switch e.key {
		case "apiVersion":
			r.apiVersion, r.line[e.key] = r.text(e, e.key), e.line
		case "kind":
			r.kind, r.line[e.key] = r.text(e, e.key), e.line
		case "metadata":
			metadata = e
		case "spec":
			if !isNull(e.value) {
				r.spec, r.specLine = e.value, e.line
			}
		case "status": // written by the control plane
		default:
			r.faultf(e.line, pathOf("", e.key), "unknown field %q%s", e.key,
				suggest(e.key, []string{"apiVersion", "kind", "metadata", "spec", "status"}))
		}
	}
	r.meta.Kind = r.kind
	r.readMetadata(metadata)
	r.require(root.Line, "apiVersion", r.apiVersion)
	r.require(root.Line, "kind", r.kind)
	r.require(metadata.line, "metadata.name", r.meta.Name)
	problems := r.all(root.Line, "")
	if r.fault != nil {
		problems = append(problems, *r.fault)
	}
	return r.envelope, problems
}

type envelopeReader struct {
	*reader
	envelope
	problemList
}

func (r *envelopeReader) faultf(line int, path, format string, args ...any) {
	if r.next(Error) {
		r.keep(Problem{Line: line, Severity: Error, Path: path, Message: fmt.Sprintf(format, short(args)...)})
	}
}

// pathOf returns the path of a key below another path, "" for that of the whole object.
func pathOf(above, key string) string {
	return strings.TrimPrefix(above+step{name: key, key: true}.text(), ".")
}

func (r *envelopeReader) require(line int, path, value string) {
	reported := slices.ContainsFunc(r.named, func(p Problem) bool { return p.Path == path })
	if value == "" && !reported {
		r.faultf(line, path, "is missing")
	}
}

// readMetadata reads the keys that discovery needs. Other keys belong to Kubernetes and are not checked.
func (r *envelopeReader) readMetadata(metadata entry) {
	for _, e := range r.object(metadata.value, "metadata") {
		path := pathOf("metadata", e.key)
		switch e.key {
		case "name":
			r.meta.Name = r.name(e, path)
		case "namespace":
			if !isNull(e.value) {
				r.meta.Namespace = r.name(e, path)
			}
		case "labels":
			if !isNull(e.value) {
				r.meta.Labels = r.labels(e, path)
			}
		case "annotations":
			if r.meta.Kind == "AuthorizationPolicy" && !isNull(e.value) {
				r.meta.DryRun = r.dryRun(e, path)
			}
		case "creationTimestamp":
			if isNull(e.value) {
				continue
			}
			text := r.text(e, path)
			created, err := time.Parse(time.RFC3339, text)
			if err != nil {
				r.faultf(e.line, path, "is %q, want a time such as 2026-01-31T12:00:00Z", text)
			}
			r.meta.Created = created
		}
	}
}

// dryRunAnnotation marks a policy that is judged and keeps nobody out.
const dryRunAnnotation = "istio.io/dry-run"

// dryRun reads the annotation of that name. A policy of which it cannot be read is enforced.
func (r *envelopeReader) dryRun(annotations entry, path string) bool {
	for _, e := range r.object(annotations.value, path) {
		if e.key != dryRunAnnotation {
			continue
		}
		n, _ := r.enter(e.value, false, 0)
		dry, err := strconv.ParseBool(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			r.faultf(e.line, pathOf(path, e.key), "is %s, want \"true\" or \"false\"", describe(n))
			return false
		}
		return dry
	}
	return false
}

// labels reads the labels whose values are strings; Kubernetes itself would refuse others.
func (r *envelopeReader) labels(metadata entry, path string) map[string]string {
	out := map[string]string{}
	for _, e := range r.object(metadata.value, path) {
		if n, _ := r.enter(e.value, false, 0); n.Kind == yaml.ScalarNode {
			out[strings.Clone(e.key)] = strings.Clone(n.Value)
		}
	}
	return out
}

// object returns a mapping's entries, each key once.
func (r *envelopeReader) object(n *yaml.Node, path string) []entry {
	n, _ = r.enter(n, false, 0)
	if n.Kind != yaml.MappingNode {
		r.faultf(n.Line, path, "is %s, want an object", describe(n))
		return nil
	}
	seen := map[string]int{}
	return slices.DeleteFunc(r.entries(n, false, 0), func(e entry) bool {
		line, duplicate := seen[e.key]
		if duplicate {
			r.faultf(e.line, pathOf(path, e.key), "is given already at line %d", line)
		} else {
			seen[e.key] = e.line
		}
		return duplicate
	})
}

func (r *envelopeReader) text(e entry, path string) string {
	n, _ := r.enter(e.value, false, 0)
	if n.Kind == yaml.ScalarNode && n.Style == 0 && formOf(n.Value) == text && utf8.ValidString(n.Value) {
		return strings.Clone(n.Value)
	}
	var s string
	if n.Kind != yaml.ScalarNode || json.Unmarshal([]byte(scalar(n)), &s) != nil || s == "" {
		r.faultf(e.line, path, "is %s, want a string", describe(n))
	}
	return s
}

func (r *envelopeReader) name(e entry, path string) string {
	s := r.text(e, path)
	if s == "" || len(s) <= 253 && objectName.MatchString(s) {
		return s
	}
	r.faultf(e.line, path, "is %q, want lower-case letters, digits, '-' and '.', at most 253", s)
	return ""
}

// unservedKind judges an object of a kind that is not served. An object that was probably meant to be of a served kind
// is refused, under the key of that kind. Any other object is ignored, with a warning. kind is the kind that was meant.
func unservedKind(e envelope) (kind, key string, problems []Problem) {
	in, version, _ := strings.Cut(e.apiVersion, "/")
	p := Problem{Line: e.meta.Origin.Line, Severity: Error, Object: title(e.meta)}
	meant := e.meta
	near := spelling.Nearest(e.kind, kindNames())
	switch {
	case e.kind == "ServiceAccount" && e.apiVersion == "v1": // pods and their templates name it; only that name is used
		return "", "", nil
	case slices.Contains(kindNames(), e.kind) && (isIstioGroup(in) || similarGroup(e.apiVersion)):
		p.Path, p.Line = "apiVersion", e.line["apiVersion"]
		p.Message = fmt.Sprintf("is %q, want %s", e.apiVersion, bestOf(e.kind))
	case near != "" && in == groupOf(near) && slices.Contains(versions(near), version):
		meant.Kind, p.Path, p.Line = near, "kind", e.line["kind"]
		p.Message = fmt.Sprintf("is %q, did you mean %s?", e.kind, near)
	case isIstioGroup(in) && e.kind != "EnvoyFilter":
		p.Path, p.Line = "kind", e.line["kind"]
		p.Message = fmt.Sprintf("is %q, want one of %s", e.kind, strings.Join(kindNames(), ", "))
	default:
		p.Severity, p.Message = Warning, fmt.Sprintf("%s of %s is not supported, ignored", e.kind, e.apiVersion)
		return "", "", []Problem{p}
	}
	if meant.Name != "" && meant.Namespace != "" {
		key = meant.Key()
	}
	return meant.Kind, key, []Problem{p}
}

// similarGroup reports whether an apiVersion is probably meant to be Istio's. Other groups have kinds of the same
// names, such as Gateway of gateway.networking.k8s.io.
func similarGroup(apiVersion string) bool {
	in, _, found := strings.Cut(apiVersion, "/")
	return !found || !strings.HasSuffix(in, ".k8s.io") && spelling.Nearest(in, []string{group, securityGroup}) != ""
}

// isIstioGroup reports whether a group is one of Istio's whose kinds are served.
func isIstioGroup(in string) bool { return in == group || in == securityGroup }
