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

	"github.com/pilotlight/pilotlight/discovery/model"
)

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
	tally
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
