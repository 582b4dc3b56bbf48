package ads

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of DiscoveryResponse and DeltaDiscoveryResponse that are of one response only. They have one number in both.
const (
	fieldVersion = 1
	fieldTypeURL = 4
	fieldNonce   = 5
)

// tail returns the fields that a response does not share.
func (r *response) tail() []byte {
	b := make([]byte, 0, len(r.version)+len(r.kind.typeURL())+len(r.nonce)+8)
	for _, field := range []struct {
		number protowire.Number
		value  string
	}{{fieldVersion, r.version}, {fieldTypeURL, r.kind.typeURL()}, {fieldNonce, r.nonce}} {
		b = protowire.AppendString(protowire.AppendTag(b, field.number, protowire.BytesType), field.value)
	}
	return b
}

// size returns the number of bytes of its resources.
func (r *response) size() (n int) {
	for _, p := range r.news.parts {
		_, size := p.pieces(r.variant)
		n += size
	}
	return n
}

// response is one response to send on a stream.
type response struct {
	variant variant
	kind    kind
	nonce   string
	version string
	news    *news
}
