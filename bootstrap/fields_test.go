package bootstrap

import (
	"fmt"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pilotlight/pilotlight/internal/golden"
)

// TestFields holds that fields.txt is what Envoy's protos say of the messages that can be merged; -update rewrites it.
func TestFields(t *testing.T) {
	var out strings.Builder
	out.WriteString("# The fields of Envoy's Bootstrap and of the messages in it, except in lists; see fields.go.\n")
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
