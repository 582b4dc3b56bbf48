package config

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Numbers of an object cost memory and time in every proxy that follows it. A value beyond its bound becomes the bound,
// with a warning: Envoy itself accepts values that hold a gateway for seconds.

//go:embed bounds.txt
var boundsText string

// bound is what limits a number. Durations are in nanoseconds.
type bound struct {
	limited     bool
	least, most float64 // least is 0, and most infinite, where there is none; 0 itself is never raised: it is no value
	low, high   string  // as they are written
}

// bounds are the bounds of all fields, which are read once, by the full name of the field, without Istio's package, or of
// a message and ".*".
var bounds = func() map[string]bound {
	out := map[string]bound{}
	for line := range strings.SplitSeq(boundsText, "\n") {
		name, what, _ := strings.Cut(line, " ")
		if name == "" || name == "#" {
			continue
		}
		b := bound{most: 1 << 63}
		if low, high, ok := strings.Cut(what, ".."); ok {
			b.limited, b.low, b.high = true, low, high
			if low != "" {
				b.least = amount(low)
			}
			if high != "" {
				b.most = amount(high)
			}
		}
		out[name] = b
	}
	return out
}()

func amount(text string) float64 {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n
	}
	d, _ := time.ParseDuration(text) // a test parses all
	return float64(d)
}

// boundOf returns the bound of a field, false if the table has none.
func boundOf(fd protoreflect.FieldDescriptor) (bound, bool) {
	name := string(fd.FullName())
	for _, istio := range []string{"istio.networking.v1alpha3.", "istio.networking.v1beta1.", "istio.security.v1beta1.", "istio.mesh.v1alpha1."} {
		if rest, ok := strings.CutPrefix(name, istio); ok {
			if b, known := bounds[rest]; known && istio != "istio.mesh.v1alpha1." {
				return b, true
			}
			message, _, _ := strings.Cut(rest, ".")
			b, known := bounds[message+".*"]
			return b, known && istio == "istio.mesh.v1alpha1."
		}
	}
	return bound{}, false
}

// bounded brings each number of a message within its bound, and reports it.
func bounded(f field, m proto.Message) { boundMessage(m.ProtoReflect(), f) }

func boundMessage(m protoreflect.Message, at field) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		here := func() field { return at.at(fd.JSONName()) }
		below := fd.Message()
		switch {
		case fd.IsMap() || below != nil && below.ParentFile().Package() == "google.protobuf" && !isNumber(fd):
		case below == nil || isNumber(fd):
			if b, ok := boundOf(fd); ok && b.limited && !fd.IsList() {
				b.clamp(m, fd, v, here)
			}
		case fd.IsList():
			for i := range v.List().Len() {
				boundMessage(v.List().Get(i).Message(), here().item(i))
			}
		default:
			boundMessage(v.Message(), here())
		}
		return true
	})
}

// clamp brings one value within the bound.
func (b bound) clamp(m protoreflect.Message, fd protoreflect.FieldDescriptor, v protoreflect.Value, at func() field) {
	got, text := measured(fd, v)
	to, limit := b.most, b.high
	switch {
	case got > b.most:
	case got > 0 && got < b.least:
		to, limit = b.least, b.low
	default:
		return
	}
	switch {
	case fd.Message() == nil:
		m.Set(fd, numberOf(fd, to))
	case fd.Message().Name() == "Duration":
		m.Set(fd, protoreflect.ValueOfMessage(durationpb.New(time.Duration(to)).ProtoReflect()))
	default:
		value := m.Mutable(fd).Message()
		inner := value.Descriptor().Fields().ByName("value")
		value.Set(inner, numberOf(inner, to))
	}
	side := "at most"
	if limit == b.low {
		side = "at least"
	}
	at().warnf("is %s, want %s %s, which counts: other values cost proxies too much memory or time", text, side, limit)
}

// isNumber reports whether a field holds a number or a duration.
func isNumber(fd protoreflect.FieldDescriptor) bool {
	if m := fd.Message(); m != nil {
		switch m.FullName() {
		case "google.protobuf.Duration", "google.protobuf.UInt32Value", "google.protobuf.Int32Value", "google.protobuf.UInt64Value",
			"google.protobuf.Int64Value", "google.protobuf.DoubleValue", "google.protobuf.FloatValue":
			return true
		}
		return false
	}
	switch fd.Kind() {
	case protoreflect.BoolKind, protoreflect.StringKind, protoreflect.BytesKind, protoreflect.EnumKind:
		return false
	}
	return true
}

// measured returns the value of a field, durations in nanoseconds, and how to write it.
func measured(fd protoreflect.FieldDescriptor, v protoreflect.Value) (float64, string) {
	if fd.Message() != nil && fd.Message().Name() == "Duration" {
		seconds := v.Message().Get(fd.Message().Fields().ByName("seconds")).Int()
		nanos := v.Message().Get(fd.Message().Fields().ByName("nanos")).Int()
		text := fmt.Sprintf("%ds", seconds)
		if nanos != 0 {
			text = (time.Duration(seconds)*time.Second + time.Duration(nanos)).String()
		}
		return float64(seconds)*1e9 + float64(nanos), text
	}
	if fd.Message() != nil {
		fd = fd.Message().Fields().ByName("value")
		v = v.Message().Get(fd)
	}
	switch n := v.Interface().(type) {
	case int32:
		return float64(n), v.String()
	case int64:
		return float64(n), v.String()
	case uint32:
		return float64(n), v.String()
	case uint64:
		return float64(n), v.String()
	case float32:
		return float64(n), v.String()
	case float64:
		return n, v.String()
	}
	return 0, v.String()
}

func numberOf(fd protoreflect.FieldDescriptor, n float64) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(n))
	default:
		return protoreflect.ValueOfFloat64(n)
	}
}
