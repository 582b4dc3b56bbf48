package statedir

import (
	"encoding/json"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// record is a group as a file has it.
type record struct {
	Key       string            `json:"Key"`
	Services  []*model.Service  `json:"Services,omitempty"`
	Workloads []*model.Workload `json:"Workloads,omitempty"`
	Objects   []object          `json:"Objects,omitempty"`
	Stranded  bool              `json:"Stranded,omitempty"`
}

// object is an object as a file has it, without the lines of its fields: they are those of a file that may have changed.
type object struct {
	Meta model.Meta `json:"Meta"`
	Type string     `json:"Type"` // of Spec: see kinds
	Spec []byte     `json:"Spec"` // protobuf

	Warnings []model.Warning `json:"Warnings,omitempty"`
}

// UnmarshalJSON reads an object. One that does not say whether it is closed lets nobody in: its form is not known to be a good one.
func (o *object) UnmarshalJSON(text []byte) error {
	type plain object
	read := plain{Meta: model.Meta{Closed: true}}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	*o = object(read)
	return nil
}

// kinds returns the types of model.Spec, by the kind of the object.
func kinds() map[string]protoreflect.FullName {
	out := map[string]protoreflect.FullName{
		"ProxyConfig": "istio.networking.v1beta1.ProxyConfig",
		"MeshConfig":  "istio.mesh.v1alpha1.MeshConfig", "MeshNetworks": "istio.mesh.v1alpha1.MeshNetworks",
	}
	for _, kind := range []string{
		"VirtualService", "DestinationRule", "Sidecar", "ServiceEntry", "Gateway", "WorkloadEntry", "WorkloadGroup",
	} {
		out[kind] = protoreflect.FullName("istio.networking.v1alpha3." + kind)
	}
	for _, kind := range []string{"AuthorizationPolicy", "PeerAuthentication", "RequestAuthentication"} {
		out[kind] = protoreflect.FullName("istio.security.v1beta1." + kind)
	}
	out["KeySet"] = "istio.security.v1beta1.JWTRule"
	out["Challenge"] = "istio.networking.v1alpha3.HTTPRoute"
	return out
}

// encode returns the line of a group.
func encode(key string, g model.Group) ([]byte, error) {
	r := record{Key: key, Services: g.Services, Workloads: g.Workloads, Stranded: g.Stranded}
	for _, o := range g.Objects {
		spec, ok := o.Spec.(proto.Message)
		if !ok {
			return nil, fmt.Errorf("group %q: %s is a %T, want a message", key, o.Key(), o.Spec)
		}
		body, err := proto.Marshal(spec)
		if err != nil {
			return nil, fmt.Errorf("group %q: %s: %w", key, o.Key(), err)
		}
		meta := o.Meta
		meta.Origin.Fields = ""
		r.Objects = append(r.Objects, object{meta, string(spec.ProtoReflect().Descriptor().FullName()), body, o.Warnings.All()})
	}
	line, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("group %q: %w", key, err)
	}
	return append(line, '\n'), nil
}

// decode reads the line of a group. Its error says what no group can have: the file is of other types.
func decode(line []byte) (key string, g model.Group, err error) {
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		return "", g, err
	}
	fail := func(format string, args ...any) (string, model.Group, error) {
		return "", model.Group{}, fmt.Errorf("group %.200q: %s", r.Key, fmt.Sprintf(format, args...))
	}
	g.Services, g.Workloads, g.Stranded = r.Services, r.Workloads, r.Stranded
	if slices.Contains(g.Services, nil) || slices.Contains(g.Workloads, nil) {
		return fail("a part of it is null")
	}
	for _, s := range g.Services {
		if fault := faultOf(s); fault != "" {
			return fail("service %.200q: %s", s.Host, fault)
		}
	}
	for _, w := range g.Workloads {
		if !w.Health.Known() {
			return fail("workload %.200q: health is %d", w.Name, uint8(w.Health))
		}
	}
	of := kinds()
	for _, o := range r.Objects {
		if of[o.Meta.Kind] == "" || string(of[o.Meta.Kind]) != o.Type {
			return fail("an object of kind %.200q is of type %.200q", o.Meta.Kind, o.Type)
		}
		found, err := protoregistry.GlobalTypes.FindMessageByName(of[o.Meta.Kind])
		if err != nil {
			return fail("%v", err)
		}
		spec := found.New().Interface()
		if err := proto.Unmarshal(o.Spec, spec); err != nil {
			return fail("%.200q: %v", o.Meta.Key(), err)
		}
		o.Meta.Origin.Fields = ""
		g.Objects = append(g.Objects, &model.Object{Meta: o.Meta, Spec: spec, Warnings: model.WarningsOf(o.Warnings)})
	}
	if g.Len() == 0 {
		return fail("has nothing in it")
	}
	return r.Key, g, nil
}

// faultOf returns which value of a service is none of its type; "" for none.
func faultOf(s *model.Service) string {
	for i := range s.Endpoints {
		if !s.Endpoints[i].Health.Known() {
			return fmt.Sprintf("health is %d", uint8(s.Endpoints[i].Health))
		}
	}
	for _, p := range s.Ports {
		if known, ok := model.ParseProtocol(string(p.Protocol)); p.Protocol != model.Unknown && (!ok || known != p.Protocol) {
			return fmt.Sprintf("protocol is %.200q", p.Protocol)
		}
	}
	switch s.Resolution {
	case "", model.ResolutionStatic, model.ResolutionDNS, model.ResolutionDNSRoundRobin, model.ResolutionNone:
	default:
		return fmt.Sprintf("resolution is %.200q", s.Resolution)
	}
	if s.Prefer > model.PreferNode {
		return fmt.Sprintf("preference is %d", s.Prefer)
	}
	return ""
}
