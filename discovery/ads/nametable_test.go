package ads

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

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

// readNames decodes a table with protobuf's own code, and returns it as one line.
func readNames(t *testing.T, table []byte) string {
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

func TestNameTableIsIstiosMessage(t *testing.T) {
	encoded := encodeNames([]xds.Name{
		{Host: "*.a.com", Addresses: []string{"10.0.0.1", "fd00::1"}},
		{Host: "b.shop.svc.cluster.local", Addresses: []string{"10.0.0.2"}, Service: "b", Namespace: "shop"},
	})
	want := "*.a.com=10.0.0.1,fd00::1 External /; b.shop.svc.cluster.local=10.0.0.2 Kubernetes b/shop"
	if got := readNames(t, encoded); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := readNames(t, encodeNames(nil)); got != "" {
		t.Errorf("of no names: %s", got)
	}
}

// atAddresses returns a mesh of services, each with the address that follows its name.
func atAddresses(words string) *model.Mesh {
	var services []*model.Service
	for _, word := range strings.Fields(words) {
		name, address, _ := strings.Cut(word, "=")
		services = append(services, &model.Service{
			Host: name + ".default.svc.cluster.local", Namespace: "default", Resolution: model.ResolutionStatic,
			Ports:     []model.Port{{Name: "tcp", Number: 80, Protocol: model.TCP}},
			Addresses: []string{address}, Endpoints: []model.Endpoint{{Address: "127.0.0.1"}},
		})
	}
	return model.New(slices.Values([]model.Group{{Services: services}}))
}

// A client that requests names gets one table: at once, even if it is empty, and again when it changes. Istio's agent
// sends the request without a name, after one for listeners.
func TestNamesAreServed(t *testing.T) {
	both(t, nil, func(r *rig, v variant) {
		push := func(words string) {
			r.Push(atAddresses(words), model.Change{})
			synctest.Wait()
		}
		push("")
		c := r.connect(v)
		c.want("LDS", c.subscribe(lds), "lds:127.0.0.1_15080")
		c.want("NDS", c.subscribe(nds), "nds:names")
		if got := readNames(t, c.table); got != "" {
			t.Errorf("an empty mesh has the names %s", got)
		}
		c.want("ACK of listeners", c.ack(lds), "")
		c.want("ACK of names", c.ack(nds), "")

		push("a=10.0.0.1")
		c.want("a service", c.got(), "nds:names")
		if got, want := readNames(t, c.table), "a.default.svc.cluster.local=10.0.0.1 Kubernetes a/default"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		c.want("its ACK", c.ack(nds), "")
		push("a=10.0.0.1")
		c.want("nothing new", c.got(), "")
		push("a=10.0.0.1 b=10.0.0.2")
		c.want("another", c.got(), "nds:names")
		c.want("a NACK", c.nack(nds, "failed to unmarshal name table"), "")
		push("b=10.0.0.2")
		c.want("after it", c.got(), "nds:names")
		c.want("its ACK", c.ack(nds), "")
		push("")
		c.want("none is left", c.got(), "nds:names")
		if got := readNames(t, c.table); got != "" {
			t.Errorf("an empty mesh has the names %s", got)
		}

		if state := r.Clients()[0].Types; state[len(state)-1].Name != "nds" {
			t.Errorf("the status page shows %+v", state)
		}
		other := r.connect(v)
		other.want("another proxy", other.subscribe(lds), "lds:127.0.0.1_15080")
		asked := 0 // both connected at the same instant: their order is not defined
		for _, client := range r.Clients() {
			if state := client.Types; state[len(state)-1].Name == "nds" {
				asked++
			}
		}
		if asked != 1 {
			t.Errorf("the status page shows names of %d proxies, want 1: the other asks for none", asked)
		}
	})
}

// A name may resolve to an address that a new listener serves: listeners are sent first.
func TestNamesFollowListeners(t *testing.T) {
	table := func(s *snapshot, words string) *snapshot {
		s[nds] = content(nds, words)
		return s
	}
	e := start(t, table(state("a=1", "a=1", "l=1", ""), "names=1"))
	if got := e.ask(nds); got != "nds:names" {
		t.Errorf("asked for: %q", got)
	}
	e.ack(nds)
	if got := e.push(table(state("a=1 b=1", "a=1", "l=b", ""), "names=2")); got != "cds:a,b" {
		t.Errorf("a listener that waits for its cluster: got %q, want the names to wait with it", got)
	}
	if got := e.later(patience); got != "lds:l nds:names" {
		t.Errorf("the listener waits no longer: got %q", got)
	}
	e.nack(lds, "bad")
	if got := e.push(table(state("a=1 b=1", "a=1", "l=b", ""), "names=3")); got != "" {
		t.Errorf("before the names are answered: %q", got)
	}
	if got := e.ack(nds); got != "nds:names" {
		t.Errorf("a refused listener holds nothing up: got %q", got)
	}
}

func TestNamesAreShown(t *testing.T) {
	r := run(t)
	r.Push(atAddresses("a=10.0.0.1"), model.Change{})
	s := r.open()
	s.ask(namesType)
	dump, err := r.Dump(nodeID)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(dump["nds"])
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"@type":"` + namesType + `","table":{"a.default.svc.cluster.local":` +
		`{"ips":["10.0.0.1"],"registry":"Kubernetes","shortname":"a","namespace":"default"}}}]`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}
