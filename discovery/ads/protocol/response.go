package protocol

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// Fields of DiscoveryResponse and DeltaDiscoveryResponse that are of one response only. They have one number in both.
const (
	fieldVersion = 1
	fieldTypeURL = 4
	fieldNonce   = 5
)

// Tail returns the fields that a response does not share.
func (r *Response) Tail() []byte {
	b := make([]byte, 0, len(r.Version)+len(r.Kind.TypeURL())+len(r.Nonce)+8)
	for _, field := range []struct {
		number protowire.Number
		value  string
	}{{fieldVersion, r.Version}, {fieldTypeURL, r.Kind.TypeURL()}, {fieldNonce, r.Nonce}} {
		b = protowire.AppendString(protowire.AppendTag(b, field.number, protowire.BytesType), field.value)
	}
	return b
}

// Size returns the number of bytes of its resources.
func (r *Response) Size() (n int) {
	for _, p := range r.News.Parts {
		_, size := p.Pieces(r.Variant)
		n += size
	}
	return n
}

// Response is one response to send on a stream.
type Response struct {
	Variant content.Variant
	Kind    content.Kind
	Nonce   string
	Version string
	News    *content.News
}
