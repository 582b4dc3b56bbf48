package xds

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	mcpv1 "istio.io/api/mcp/v1alpha1"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// meshConfigType names MeshConfig in MCP over xDS. It is sent as it is, in no envelope.
const meshConfigType = "core/v1alpha1/MeshConfig"

// Objects returns the mesh's configuration objects as Istio's API generator serves them, by type: group/version/Kind.
// Of each type they are in the order of namespace and name. encode is called for each object, for a caller that
// remembers: it is EncodeObject. Objects that were read from another control plane are not among them.
func Objects(m *model.Mesh, encode func(*model.Object) *anypb.Any) map[string][]*anypb.Any {
	objects := slices.DeleteFunc(slices.Clone(m.Objects()), func(o *model.Object) bool { return o.Origin.Record != nil && o.Origin.Record.Relayed })
	slices.SortStableFunc(objects, func(a, b *model.Object) int { return cmp.Compare(a.Key(), b.Key()) })
	out := map[string][]*anypb.Any{}
	last := "" // of two that have one name the older is used here, and served
	for _, o := range objects {
		if o.Key() == last {
			continue
		}
		last = o.Key()
		if t := objectType(o); t != "" {
			out[t] = append(out[t], encode(o))
		}
	}
	return out
}

// objectType is "" for what Istio's generator has no type of.
func objectType(o *model.Object) string {
	switch o.Kind {
	case "MeshNetworks", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet":
		return ""
	case "MeshConfig":
		return meshConfigType
	case "ProxyConfig":
		return "networking.istio.io/v1beta1/" + o.Kind
	default:
		return "networking.istio.io/v1/" + o.Kind
	}
}

// EncodeObject encodes one object. Its version is of its content: clients skip what has the version that they know.
func EncodeObject(o *model.Object) *anypb.Any {
	spec, _ := o.Spec.(proto.Message)
	if config, ok := spec.(*meshconfig.MeshConfig); ok {
		return packed(config)
	}
	r := &mcpv1.Resource{Metadata: &mcpv1.Metadata{Name: o.Namespace + "/" + o.Name, Labels: o.Labels}, Body: packed(spec)}
	if !o.Created.IsZero() {
		r.Metadata.CreateTime = timestamppb.New(o.Created)
	}
	sum := sha256.Sum256(packed(r).Value)
	r.Metadata.Version = hex.EncodeToString(sum[:8])
	return packed(r)
}

// packed can only fail on text that is not UTF-8, which no decoder of ours lets in.
func packed(m proto.Message) *anypb.Any {
	out := &anypb.Any{}
	if err := anypb.MarshalFrom(out, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic(err)
	}
	return out
}
