package content

import (
	"crypto/sha256"
	"encoding/hex"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
)

// Encode encodes a message. It may share bytes with others that have the same parts.
func Encode(name string, m proto.Message, others ...*Resource) *Resource {
	if routes, ok := m.(*routev3.RouteConfiguration); ok && len(routes.VirtualHosts) >= manyHosts {
		return encodeRoutes(name, routes, others)
	}
	options := deterministic
	size := options.Size(m)
	options.UseCachedSize = true
	content := contentOf(typeOf(m), size, size)
	from := len(content)
	content = mustAppend(options, content, m)
	return newContent(name, content, content[from:])
}

// newResource returns the resource of an encoded message.
func newResource(name, typeURL string, message []byte) *Resource {
	content := append(contentOf(typeURL, len(message), len(message)), message...)
	return newContent(name, content, message)
}

func newContent(name string, content, message []byte) *Resource {
	r := &Resource{Name: name, Content: content, hash: sha256.Sum256(message)}
	r.Version = hex.EncodeToString(r.hash[:8])
	return r
}
