package content

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

var deterministic = proto.MarshalOptions{Deterministic: true}

func typeOf(m proto.Message) string {
	return "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName())
}

// mustAppend can only fail on text that is not UTF-8, which no decoder of ours lets in.
func mustAppend(options proto.MarshalOptions, b []byte, m proto.Message) []byte {
	b, err := options.MarshalAppend(b, m)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", m, err))
	}
	return b
}

// contentOf returns the beginning of an encoded Any for a message of size bytes, with capacity for room bytes of the
// message.
func contentOf(typeURL string, size, room int) []byte {
	b := make([]byte, 0, 2*protowire.SizeTag(1)+protowire.SizeBytes(len(typeURL))+protowire.SizeVarint(uint64(size))+room)
	b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), typeURL)
	return protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.BytesType), uint64(size))
}
