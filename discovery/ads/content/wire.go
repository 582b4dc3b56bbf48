package content

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// countFields counts the fields that can be read, up to a limit.
func countFields[T string | []byte](message T, limit int) (n int) {
	for n < limit {
		_, _, rest, ok := cutField(message)
		if !ok {
			break
		}
		message = rest
		n++
	}
	return n
}

// cutField takes the first field off a message, one that is text. It makes no copy.
func cutField[T string | []byte](message T) (number protowire.Number, value, rest T, ok bool) {
	tag, n := cutVarint(message)
	if n == 0 || protowire.Type(tag&7) != protowire.BytesType {
		return 0, value, rest, false
	}
	size, m := cutVarint(message[n:])
	if rest = message[n+m:]; m == 0 || size > uint64(len(rest)) {
		return 0, value, rest, false
	}
	return protowire.Number(tag >> 3), rest[:size], rest[size:], true
}

// cutVarint returns a number and its length in bytes, length 0 if it is malformed.
func cutVarint[T string | []byte](s T) (value uint64, n int) {
	for i := range min(len(s), 10) {
		value |= uint64(s[i]&0x7f) << (7 * i)
		if s[i] < 0x80 {
			return value, i + 1
		}
	}
	return 0, 0
}

// fieldsOf returns the first field of that number, without its tag.
func fieldsOf(message []byte, number protowire.Number) []byte {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeField(message)
		if size < 0 {
			return nil
		}
		if n == number && kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(message)
			value, _ := protowire.ConsumeBytes(message[tag:])
			return value
		}
		message = message[size:]
	}
	return nil
}

// Fields of RouteConfiguration and VirtualHost.
const (
	fieldVirtualHosts = 2
	fieldHostName     = 1
	fieldDomains      = 2
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
