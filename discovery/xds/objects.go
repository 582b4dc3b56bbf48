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

// meshConfigType is the type of MeshConfig in MCP over xDS. It is sent without an envelope.
const meshConfigType = "core/v1alpha1/MeshConfig"

// Objects returns the mesh's configuration objects in the form of Istio's API generator, by type: group/version/Kind.
// The objects of each type are ordered by namespace and name. encode is called for each object; it returns the result
// of EncodeObject, which the caller may cache. Objects that were received from another control plane are left out.
func Objects(m *model.Mesh, encode func(*model.Object) *anypb.Any) map[string][]*anypb.Any {
	objects := slices.DeleteFunc(slices.Clone(m.Objects()), func(o *model.Object) bool { return o.Origin.Record != nil && o.Origin.Record.Relayed })
	slices.SortStableFunc(objects, func(a, b *model.Object) int { return cmp.Compare(a.Key(), b.Key()) })
	out := map[string][]*anypb.Any{}
	last := "" // if two objects have one key, the older one is used and served
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

// objectType returns "" for kinds that Istio's generator does not serve.
func objectType(o *model.Object) string {
	switch o.Kind {
	case "MeshNetworks", "Challenge", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet":
		return ""
	case "MeshConfig":
		return meshConfigType
	case "ProxyConfig":
		return "networking.istio.io/v1beta1/" + o.Kind
	case "AuthorizationPolicy", "PeerAuthentication", "RequestAuthentication":
		return "security.istio.io/v1/" + o.Kind
	default:
		return "networking.istio.io/v1/" + o.Kind
	}
}

// EncodeObject encodes one object. Its version is a hash of its content: clients skip an object whose version did not
// change.
func EncodeObject(o *model.Object) *anypb.Any {
	spec, _ := o.Spec.(proto.Message)
	if config, ok := spec.(*meshconfig.MeshConfig); ok {
		return packed(config)
	}
	r := &mcpv1.Resource{Metadata: &mcpv1.Metadata{Name: o.Namespace + "/" + o.Name, Labels: o.Labels}, Body: packed(spec)}
	if !o.Created.IsZero() {
		r.Metadata.CreateTime = timestamppb.New(o.Created)
	}
	if o.DryRun {
		r.Metadata.Annotations = map[string]string{"istio.io/dry-run": "true"}
	}
	sum := sha256.Sum256(packed(r).Value)
	r.Metadata.Version = hex.EncodeToString(sum[:8])
	return packed(r)
}

// packed can fail only on text that is not UTF-8, which all our decoders reject.
func packed(m proto.Message) *anypb.Any {
	out := &anypb.Any{}
	if err := anypb.MarshalFrom(out, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic(err)
	}
	return out
}
