package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	mcpv1 "istio.io/api/mcp/v1alpha1"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// read is the result of reading a resource.
type read struct {
	key      string // of its group; "" if it does not name its object
	group    model.Group
	warnings []config.Problem
}

// readObject decodes and validates a resource of a kind, like an object in a file. address is that of the server.
func readObject(address string, k config.Kind, in *anypb.Any) read {
	fail := func(key, format string, args ...any) read {
		return read{key: key, group: model.Group{Faults: []string{fmt.Sprintf(format, args...)}}}
	}
	var r mcpv1.Resource
	fault := ""
	if in.MessageName() != r.ProtoReflect().Descriptor().FullName() {
		fault = fmt.Sprintf("is of type %q, want istio.mcp.v1alpha1.Resource", clip(in.GetTypeUrl()))
	} else if err := proto.Unmarshal(in.Value, &r); err != nil {
		fault = fmt.Sprintf("read resource: %v", err)
	}
	if fault != "" { // nobody knows which object it is
		return read{group: model.Group{Faults: []string{fault}, Unread: true}}
	}
	origin := model.Origin{Record: &model.Record{Cluster: address, Version: r.Metadata.GetVersion(), Relayed: true}}
	var namespace, name string
	ok := false
	unread := func(format string, args ...any) read { // a policy that cannot be read keeps everybody out
		out := fail(model.Meta{Kind: k.Name, Namespace: namespace, Name: name}.Key(), format, args...)
		if o := config.ClosedForm(k.Name, namespace, name); o != nil {
			o.Origin = origin
			out.group.Objects = []*model.Object{o}
		}
		return out
	}
	namespace, name, ok = strings.Cut(r.GetMetadata().GetName(), "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return fail("", "metadata.name is %q, want NAMESPACE/NAME", clip(r.GetMetadata().GetName()))
	}
	key := model.Meta{Kind: k.Name, Namespace: namespace, Name: name}.Key()
	if len(key) > maxText {
		return fail("", "metadata.name is %q, want at most %d bytes", clip(r.Metadata.Name), maxText)
	}
	if r.GetBody().MessageName() != k.Spec {
		return unread("body is of type %q, want %s", clip(r.GetBody().GetTypeUrl()), k.Spec)
	}
	spec, err := r.Body.UnmarshalNew()
	if err != nil {
		return unread("read body: %v", err)
	}
	document, err := document(k, namespace, name, r.Metadata, spec)
	if err != nil {
		return unread("read body: %v", err)
	}
	out := readItems(address, key, config.Read(document), origin)
	path := unknownField(spec.ProtoReflect())
	if path != "" && config.ClosedForm(k.Name, namespace, name) != nil {
		return unread("spec%s has a field of a newer API, which is not known here", path)
	}
	if path != "" && len(out.group.Objects) > 0 {
		newer := config.Problem{
			File: address, Severity: config.Warning, Object: k.Name + " " + namespace + "/" + name, Path: "spec" + path,
			Message: "has a field of a newer API, which is not known here, ignored",
		}
		out.warnings = append(out.warnings, newer)
		for _, o := range out.group.Objects { // copies that readItems has made
			o.Warnings = config.Warnings(out.warnings)
		}
	}
	return out
}

// readItems makes the group of what was read in an object's document.
func readItems(address, key string, items []config.Item, origin model.Origin) read {
	out := read{key: key}
	for _, item := range items {
		for _, p := range item.Problems {
			p.File, p.Line = address, 0
			if p.Severity == config.Error {
				out.group.Faults = append(out.group.Faults, strings.TrimPrefix(p.Path+": "+p.Message, ": "))
			} else {
				out.warnings = append(out.warnings, p)
			}
		}
		if of := cmp.Or(item.Object, item.Closed); of != nil {
			o := *of
			o.Origin = origin
			out.group.Objects = append(out.group.Objects, &o)
		}
	}
	return out
}

// document writes an object as Kubernetes does.
func document(k config.Kind, namespace, name string, meta *mcpv1.Metadata, spec proto.Message) ([]byte, error) {
	body, err := encode(spec)
	if err != nil {
		return nil, err
	}
	type metadata struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		Labels    map[string]string `json:"labels,omitempty"`
		Created   string            `json:"creationTimestamp,omitempty"`

		Annotations map[string]string `json:"annotations,omitempty"`
	}
	m := metadata{Name: name, Namespace: namespace, Labels: meta.GetLabels(), Annotations: meta.GetAnnotations()}
	if created := meta.GetCreateTime(); created.IsValid() {
		m.Created = created.AsTime().UTC().Format(time.RFC3339)
	}
	return json.Marshal(struct {
		APIVersion string          `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Metadata   metadata        `json:"metadata"`
		Spec       json.RawMessage `json:"spec"`
	}{k.APIVersion, k.Name, m, body})
}

// unknownField returns the path of a message that has a field outside of its type, which JSON would lose; "" for none.
func unknownField(m protoreflect.Message) (path string) {
	if len(m.GetUnknown()) > 0 {
		return "."
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		below := func(m protoreflect.Message) bool {
			if p := unknownField(m); p != "" {
				path = strings.TrimSuffix("."+f.JSONName()+p, ".")
			}
			return path == ""
		}
		switch {
		case f.IsMap() && f.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { return below(v.Message()) })
		case f.IsMap() || f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				if !below(v.List().Get(i).Message()) {
					break
				}
			}
		default:
			below(v.Message())
		}
		return path == ""
	})
	return path
}

// maxText is how many bytes of a server's text are kept.
const maxText = 1024

func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

// encode writes a message in the JSON of Kubernetes: protobuf's puts numbers of 64 bits in quotes, and no API server
// accepts them so.
func encode(m proto.Message) ([]byte, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(unquote(value, m.ProtoReflect().Descriptor()))
}

// unquote takes the quotes from the numbers of 64 bits in a message.
func unquote(value any, of protoreflect.MessageDescriptor) any {
	switch of.FullName() {
	case "google.protobuf.Int64Value", "google.protobuf.UInt64Value":
		return number(value)
	}
	fields, ok := value.(map[string]any)
	if !ok || strings.HasPrefix(string(of.FullName()), "google.protobuf.") {
		return value // of a form of its own
	}
	for key, v := range fields {
		if f := of.Fields().ByJSONName(key); f != nil {
			fields[key] = unquoteField(v, f)
		}
	}
	return fields
}

func unquoteField(value any, f protoreflect.FieldDescriptor) any {
	one := func(v any, f protoreflect.FieldDescriptor) any {
		switch f.Kind() {
		case protoreflect.MessageKind, protoreflect.GroupKind:
			return unquote(v, f.Message())
		case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
			return number(v)
		default:
			return v
		}
	}
	switch v := value.(type) {
	case []any:
		if f.IsList() {
			for i := range v {
				v[i] = one(v[i], f)
			}
			return v
		}
	case map[string]any:
		if f.IsMap() {
			for key := range v {
				v[key] = one(v[key], f.MapValue())
			}
			return v
		}
	}
	return one(value, f)
}

func number(value any) any {
	if text, ok := value.(string); ok {
		return json.Number(text)
	}
	return value
}
