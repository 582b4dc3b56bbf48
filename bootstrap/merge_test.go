package bootstrap

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	_ "google.golang.org/protobuf/types/known/apipb" // a message to put into an Any
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pilotlight/pilotlight/internal/golden"
)

// Each row is merged by us, and by protobuf itself: the tables hold what people should expect, FuzzMerge the rest.
var merges = []struct{ name, bootstrap, override, want string }{
	{
		"scalars replace",
		`{"node": {"id": "a", "cluster": "b"}}`,
		`{"node": {"id": "c"}}`,
		`{"node": {"id": "c", "cluster": "b"}}`,
	},
	{
		"lists append", `{"static_resources": {"clusters": [{"name": "xds-grpc"}]}}`,
		`{"static_resources": {"clusters": [{"name": "mine"}]}}`,
		`{"static_resources": {"clusters": [{"name": "xds-grpc"}, {"name": "mine"}]}}`,
	},
	{
		"of a oneof the override's member stays",
		`{"admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 1}}}}`,
		`{"admin": {"address": {"pipe": {"path": "/admin"}}}}`, `{"admin": {"address": {"pipe": {"path": "/admin"}}}}`,
	},
	{
		"of a oneof even the zero value", `{"stats_flush_on_admin": true}`, `{"stats_flush_on_admin": false}`,
		`{"stats_flush_on_admin": false}`,
	},
	{
		"entries of a Struct are replaced whole", `{"node": {"metadata": {"LABELS": {"a": "1"}, "X": 1}}}`,
		`{"node": {"metadata": {"LABELS": {"b": "2"}, "X": null}}}`,
		`{"node": {"metadata": {"LABELS": {"b": "2"}, "X": null}}}`,
	},
	{
		"both spellings are one field",
		`{"dynamicResources": {"ldsConfig": {"ads": {}}}}`,
		`{"dynamic_resources": {"cds_config": {"ads": {}}}}`,
		`{"dynamic_resources": {"cds_config": {"ads": {}}, "lds_config": {"ads": {}}}}`,
	},
	{
		"zero replaces nothing",
		`{"node": {"id": "a"}, "enable_dispatcher_stats": true}`,
		`{"node": {"id": ""}, "enable_dispatcher_stats": false}`,
		`{"node": {"id": "a"}, "enable_dispatcher_stats": true}`,
	},
	{"nor does null", `{"node": {"id": "a"}}`, `{"node": null}`, `{"node": {"id": "a"}}`},
	{
		"nor an enum's first value",
		`{"dynamic_resources": {"ads_config": {"api_type": "GRPC"}}}`,
		`{"dynamic_resources": {"ads_config": {"api_type": "DEPRECATED_AND_UNAVAILABLE_DO_NOT_USE"}}}`,
		`{"dynamic_resources": {"ads_config": {"api_type": "GRPC"}}}`,
	},
	{
		"a wrapper's 0 is set where there is none",
		`{}`,
		`{"stats_server_version_override": "0"}`,
		`{"stats_server_version_override": "0"}`,
	},
	{
		"and replaces nothing",
		`{"stats_server_version_override": 7}`,
		`{"stats_server_version_override": 0}`,
		`{"stats_server_version_override": 7}`,
	},
	{
		"a duration in whole seconds",
		`{"stats_flush_interval": "5s"}`,
		`{"stats_flush_interval": "10s"}`,
		`{"stats_flush_interval": "10s"}`,
	},
	{
		"a duration's parts are two fields",
		`{"stats_flush_interval": "0.5s"}`,
		`{"stats_flush_interval": "1s"}`,
		`{"stats_flush_interval": "1.5s"}`,
	},
	{
		"a typed configuration is replaced whole",
		`{"listener_manager": {"name": "a", "typed_config": {"@type": "type.googleapis.com/google.protobuf.Api",
			"name": "r", "version": "z"}}}`,
		`{"listener_manager": {"typed_config": {"@type": "type.googleapis.com/google.protobuf.Api", "name": "x"}}}`,
		`{"listener_manager": {"name": "a", "typed_config": {"@type": "type.googleapis.com/google.protobuf.Api",
			"name": "x"}}}`,
	},
}

func TestMerge(t *testing.T) {
	for _, test := range merges {
		t.Run(test.name, func(t *testing.T) {
			got := mergeBoth(t, []byte(test.bootstrap), []byte(test.override))
			if diff := cmp.Diff(parsed(t, []byte(test.want)), got, protocmp.Transform()); diff != "" {
				t.Errorf("Merge (-want +got):\n%s", diff)
			}
		})
	}
}

// mergeBoth merges, and fails unless protobuf merges to the same.
func mergeBoth(t *testing.T, bootstrap, override []byte) *bootstrapv3.Bootstrap {
	t.Helper()
	merged, err := Merge(bootstrap, override)
	if err != nil {
		t.Fatalf("Merge(%s, %s): %v", bootstrap, override, err)
	}
	want := parsed(t, bootstrap)
	proto.Merge(want, parsed(t, override))
	got := parsed(t, merged)
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Fatalf("Merge(%s, %s) (-protobuf's +got):\n%s", bootstrap, override, diff)
	}
	return got
}

func parsed(t *testing.T, text []byte) *bootstrapv3.Bootstrap {
	t.Helper()
	m := &bootstrapv3.Bootstrap{}
	if err := protojson.Unmarshal(text, m); err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	return m
}

func TestMergeRefuses(t *testing.T) {
	for _, test := range []struct{ bootstrap, override, want string }{
		{`{}`, `[]`, "override: want a JSON object: is a list"},
		{`{}`, ``, "override: want a JSON object: is empty"},
		{`{}`, `null`, "override: want a JSON object: is null"},
		{`{}`, `{} {}`, "more follows"},
		{`{`, `{}`, "merge bootstrap: want a JSON object"},
		{`{}`, "{\n  \"node\": x\n}", `override: want a JSON object: line 2: "node": x`},
		{`{}`, `{"node": "a"}`, `override: node: is "a", want an object`},
		{`{}`, `{"static_resources": {"clusters": {}}}`, "override: static_resources.clusters: is an object, want a list"},
		{`{}`, `{"node": {"id": []}}`, "override: node.id: is a list, want a value"},
		{`{}`, `{"statsFlushInterval": "1s", "stats_flush_interval": "1s"}`, "stats_flush_interval: is there twice"},
		{`{}`, `{"stats_flush_interval": "5"}`, `stats_flush_interval: is "5", want a duration`},
		{`{"stats_flush_interval": "-1s"}`, `{"stats_flush_interval": "0.5s"}`, "0.5s over -1s is no duration"},
	} {
		_, err := Merge([]byte(test.bootstrap), []byte(test.override))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Merge(%s, %s): got %v, want an error with %q", test.bootstrap, test.override, err, test.want)
		}
	}
}

// A field that is not Envoy's, or not yet, reaches it.
func TestMergeKeepsTheUnknown(t *testing.T) {
	got, err := Merge([]byte(`{"a": 1, "b": {"c": 1}}`), []byte(`{"b": 2, "d": 3}`))
	if want := "{\n  \"a\": 1,\n  \"b\": 2,\n  \"d\": 3\n}"; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

// FuzzMerge makes two bootstraps at random, any field of any message, and compares with protobuf's own merge.
func FuzzMerge(f *testing.F) {
	for seed := range uint64(64) {
		f.Add(seed, seed+1, seed%2 == 0)
	}
	f.Fuzz(func(t *testing.T, one, two uint64, camel bool) {
		bootstrap, override := randomBootstrap(one), randomBootstrap(two)
		first, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(bootstrap)
		if err != nil {
			t.Fatal(err)
		}
		second, err := protojson.MarshalOptions{UseProtoNames: !camel, EmitUnpopulated: camel}.Marshal(override)
		if err != nil {
			t.Fatal(err)
		}
		mergeBoth(t, first, second)
	})
}

func randomBootstrap(seed uint64) *bootstrapv3.Bootstrap {
	m := &bootstrapv3.Bootstrap{}
	fillIn(m.ProtoReflect(), rand.New(rand.NewPCG(seed, 1)), 6)
	return m
}

// fillIn sets about a third of a message's fields, down to a depth.
func fillIn(m protoreflect.Message, r *rand.Rand, depth int) {
	switch m.Descriptor().FullName() {
	case "google.protobuf.Any":
		packed, _ := anypb.New(wrapperspb.String("any")) // of a string there is always one
		proto.Merge(m.Interface(), packed)
		return
	case "google.protobuf.Struct":
		values := map[string]any{"a": "1", "b": map[string]any{"c": r.IntN(3)}, "d": nil, "e": []any{true}}
		for key := range values {
			if r.IntN(2) == 0 {
				delete(values, key)
			}
		}
		s, _ := structpb.NewStruct(values) // JSON
		proto.Merge(m.Interface(), s)
		return
	case "google.protobuf.Value":
		proto.Merge(m.Interface(), structpb.NewStringValue("value"))
		return
	case "google.protobuf.Timestamp", "google.protobuf.FieldMask", "google.protobuf.ListValue":
		return
	}
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		if r.IntN(3) > 0 || depth == 0 && f.Message() != nil {
			continue
		}
		switch {
		case f.IsMap():
			if f.MapValue().Message() == nil {
				m.Mutable(f).Map().Set(protoreflect.ValueOf(string(rune('a'+r.IntN(3)))).MapKey(), scalar(f.MapValue(), r))
				continue
			}
			value := m.Mutable(f).Map().NewValue()
			fillIn(value.Message(), r, depth-1)
			m.Mutable(f).Map().Set(protoreflect.ValueOf(string(rune('a'+r.IntN(3)))).MapKey(), value)
		case f.IsList() && f.Message() != nil:
			fillIn(m.Mutable(f).List().AppendMutable().Message(), r, min(depth-1, 1))
		case f.IsList():
			m.Mutable(f).List().Append(scalar(f, r))
		case f.Message() != nil:
			fillIn(m.Mutable(f).Message(), r, depth-1)
		default:
			m.Set(f, scalar(f, r))
		}
	}
}

// scalar is a small value, zero now and then.
func scalar(f protoreflect.FieldDescriptor, r *rand.Rand) protoreflect.Value {
	n := r.IntN(3)
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n > 0)
	case protoreflect.EnumKind:
		values := f.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(r.IntN(values.Len())).Number())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString([]string{"", "0", "text"}[n])
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([][]byte{nil, {0}, {1, 2}}[n])
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(n) / 2)
	default:
		return protoreflect.ValueOfFloat64(float64(n) / 2)
	}
}

// TestFields holds that fields.txt is what Envoy's protos say of the messages that can be merged; -update rewrites it.
func TestFields(t *testing.T) {
	var out strings.Builder
	out.WriteString("# The fields of Envoy's Bootstrap and of the messages in it, except in lists; see merge.go.\n")
	queue := []protoreflect.MessageDescriptor{(&bootstrapv3.Bootstrap{}).ProtoReflect().Descriptor()}
	seen := map[protoreflect.FullName]bool{queue[0].FullName(): true}
	for len(queue) > 0 {
		m := queue[0]
		queue = queue[1:]
		fmt.Fprintf(&out, "%s\n", m.FullName())
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			kind, argument := kindOf(t, f)
			if kind == "message" && !seen[f.Message().FullName()] {
				seen[f.Message().FullName()] = true
				queue = append(queue, f.Message())
			}
			line := fmt.Sprintf("\t%s %s %s", f.Name(), kind, argument)
			if o := f.ContainingOneof(); o != nil {
				line += " " + string(o.Name())
			}
			fmt.Fprintln(&out, line)
		}
	}
	golden.Document(t, "fields.txt", out.String())
}

// kindOf names how a field is merged, and what that needs to know.
func kindOf(t *testing.T, f protoreflect.FieldDescriptor) (kind, argument string) {
	switch {
	case f.IsMap():
		return "map", "-"
	case f.IsList():
		return "list", "-"
	case f.Kind() == protoreflect.EnumKind:
		return "enum", string(f.Enum().Values().ByNumber(0).Name())
	case f.Message() == nil:
		return "scalar", scalarOf(f)
	}
	switch name := f.Message().FullName(); name {
	case "google.protobuf.Any":
		return "any", "-"
	case "google.protobuf.Duration":
		return "duration", "-"
	case "google.protobuf.Struct":
		return "map", "-"
	case "google.protobuf.BoolValue", "google.protobuf.UInt32Value", "google.protobuf.UInt64Value",
		"google.protobuf.Int64Value", "google.protobuf.DoubleValue", "google.protobuf.StringValue":
		return "wrapper", scalarOf(f.Message().Fields().ByName("value"))
	case "google.protobuf.Empty":
		return "message", string(name)
	default:
		if strings.HasPrefix(string(name), "google.protobuf.") {
			t.Errorf("%s is a %s: say how it is merged", f.FullName(), name)
		}
		return "message", string(name)
	}
}

func scalarOf(f protoreflect.FieldDescriptor) string {
	if f.Kind() == protoreflect.StringKind || f.Kind() == protoreflect.BytesKind {
		return "text"
	}
	return "number"
}
