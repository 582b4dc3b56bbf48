package adstest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// NodeID is the ID of Node.
const NodeID = "sidecar~127.0.0.9~app.default~default.svc.cluster.local"

// Mesh returns a mesh of HTTP services on port 80, NAME.com each, with one endpoint at 10.0.0.LASTBYTE.
func Mesh(lastByte int, names ...string) *model.Mesh {
	var services []*model.Service
	for _, name := range names {
		services = append(services, &model.Service{
			Right: model.RightFull, Host: name + ".com", Resolution: model.ResolutionStatic,
			Ports:     []model.Port{{Name: "http", Number: 80, Protocol: model.HTTP}},
			Endpoints: []model.Endpoint{{Address: fmt.Sprintf("10.0.0.%d", lastByte)}},
		})
	}
	return model.New(slices.Values([]model.Group{{Services: services}}))
}

// Cluster returns the name of the cluster of a service of Mesh.
func Cluster(name string) string { return "outbound|80||" + name + ".com" }

// Node returns the node of a sidecar that captures nothing, at 127.0.0.9 in namespace default.
func Node() *corev3.Node {
	return &corev3.Node{Id: NodeID, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
		"INTERCEPTION_MODE": structpb.NewStringValue("NONE"),
		"HTTP_PROXY_PORT":   structpb.NewStringValue("15080"),
	}}}
}

// View returns the view of such a node with another address.
func View(t *testing.T, ip string) xds.View {
	t.Helper()
	n := Node()
	n.Id = strings.Replace(n.Id, "127.0.0.9", ip, 1)
	proxy, err := xds.ParseProxy(n)
	if err != nil {
		t.Fatal(err)
	}
	return xds.ViewOf(proxy)
}

// nameTable returns the descriptor of Istio's message, as its clients have it.
func nameTable(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	field := func(name string, number int32, of string, repeated bool) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{
			Name: &name, JsonName: &name, Number: &number,
			Type:  descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		if of != "" {
			f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String(".istio.networking.nds.v1.NameTable"+of)
		}
		if repeated {
			f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}
		return f
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("nds.proto"), Package: proto.String("istio.networking.nds.v1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{
			Name:  proto.String("NameTable"),
			Field: []*descriptorpb.FieldDescriptorProto{field("table", 1, ".TableEntry", true)},
			NestedType: []*descriptorpb.DescriptorProto{{
				Name: proto.String("NameInfo"),
				Field: []*descriptorpb.FieldDescriptorProto{
					field("ips", 1, "", true), field("registry", 2, "", false), field("shortname", 3, "", false), field("namespace", 4, "", false),
				},
			}, {
				Name: proto.String("TableEntry"), Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
				Field: []*descriptorpb.FieldDescriptorProto{field("key", 1, "", false), field("value", 2, ".NameInfo", false)},
			}},
		}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().Get(0)
}

// ReadNames decodes a table with protobuf's own code, and returns it as one line.
func ReadNames(t *testing.T, table []byte) string {
	t.Helper()
	m := dynamicpb.NewMessage(nameTable(t))
	if err := proto.Unmarshal(table, m); err != nil {
		t.Fatal(err)
	}
	if len(m.GetUnknown()) > 0 {
		t.Errorf("the table has fields that Istio's has not: %x", m.GetUnknown())
	}
	var out []string
	m.Get(m.Descriptor().Fields().ByName("table")).Map().Range(func(host protoreflect.MapKey, v protoreflect.Value) bool {
		info := v.Message()
		text := func(name protoreflect.Name) string { return info.Get(info.Descriptor().Fields().ByName(name)).String() }
		var ips []string
		list := info.Get(info.Descriptor().Fields().ByName("ips")).List()
		for i := range list.Len() {
			ips = append(ips, list.Get(i).String())
		}
		out = append(out, fmt.Sprintf("%s=%s %s %s/%s", host, strings.Join(ips, ","), text("registry"), text("shortname"), text("namespace")))
		return true
	})
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// Deadline is how long a test waits at most: no condition takes as long on any machine.
const Deadline = 30 * time.Second

// Until waits until condition returns true.
func Until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	end := time.After(Deadline)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited %s for %s", Deadline, what)
		}
	}
}
