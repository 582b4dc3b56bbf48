package config

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// IsManifest reports whether a kind is one of Kubernetes' own that describe services and workloads, templates of
// workloads, or Ingresses. The Spec of such an Object is the whole object as written, a structpb.Struct: package manifest reads it.
func IsManifest(kind string) bool { return manifestVersion(kind) != "" }

// manifestVersion is the apiVersion of a kind, "" for one that is not read.
func manifestVersion(kind string) string {
	switch kind {
	case "Service", "Endpoints", "Pod", "Node", "Namespace":
		return "v1"
	case "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet":
		return "apps/v1"
	case "EndpointSlice":
		return "discovery.k8s.io/v1"
	case "Ingress", "IngressClass":
		return "networking.k8s.io/v1"
	default:
		return ""
	}
}

// manifest reads the identity and the place of an object of Kubernetes; this package reads no more of it.
func manifest(root *yaml.Node, e envelope, problems []Problem) Item {
	item := Item{Line: e.meta.Origin.Line, Key: e.meta.Key()}
	if e.meta.Name == "" || e.meta.Namespace == "" {
		item.Key = ""
	}
	for _, p := range problems { // package manifest checks fields other than those of the envelope
		if strings.HasPrefix(p.Path, "metadata") || p.Path == "" {
			p.Object = title(e.meta)
			item.Problems = append(item.Problems, p)
		}
	}
	r := newReader()
	var text bytes.Buffer
	r.json(&text, root, false, 0)
	spec := &structpb.Struct{}
	if r.fault == nil {
		if err := protojson.Unmarshal(text.Bytes(), spec); err != nil {
			r.fail(item.Line, "cannot be read: "+strings.TrimSpace(err.Error()))
		}
	}
	if r.fault != nil {
		r.fault.Object = title(e.meta)
		item.Problems = append(item.Problems, *r.fault)
	}
	if !item.Refused() {
		item.Object = &model.Object{Meta: e.meta, Spec: spec}
	}
	return item
}

// json writes a node as JSON.
func (r *reader) json(out *bytes.Buffer, n *yaml.Node, aliased bool, depth int) {
	n, aliased = r.enter(n, aliased, depth)
	switch {
	case r.fault != nil:
		out.WriteString("null") // it is not read
	case n.Kind == yaml.MappingNode:
		out.WriteByte('{')
		for i, e := range r.entries(n, aliased, depth) {
			if i > 0 {
				out.WriteByte(',')
			}
			out.WriteString(quote(e.key) + ":")
			r.json(out, e.value, aliased, depth+1)
		}
		out.WriteByte('}')
	case n.Kind == yaml.SequenceNode:
		out.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			r.json(out, item, aliased, depth+1)
		}
		out.WriteByte(']')
	default:
		out.WriteString(scalar(n))
	}
}
