package ads

import (
	"cmp"
	"crypto/sha256"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// resource is one resource, encoded once and shared by every response that holds it.
type resource struct {
	name    string
	version string // of the content, "" where there is none
	content []byte // an encoded Any, or its beginning; nil for a name that does not exist, or whose content is not known
	tail    *tail  // of a large route configuration, nil for others
	hash    digest
	unknown bool // a client has it with a content that is not known here
}

type digest [sha256.Size]byte

// absent returns a resource that states that a name does not exist.
func absent(name string) *resource { return &resource{name: name} }

func (r *resource) exists() bool { return r.content != nil }

// size returns the length of the encoded Any in bytes.
func (r *resource) size() int {
	if r.tail == nil {
		return len(r.content)
	}
	return len(r.content) + r.tail.size
}

// pieces returns the bytes of the encoded Any that follow content.
func (r *resource) pieces() [][]byte {
	if r.tail == nil {
		return nil
	}
	return r.tail.pieces
}

// whole returns the encoded Any in one piece: a copy if it lies in several.
func (r *resource) whole() []byte {
	if len(r.pieces()) == 0 {
		return r.content
	}
	return slices.Concat(slices.Insert(slices.Clone(r.pieces()), 0, r.content)...)
}

// same reports whether two resources are known to have the same content, or both to not exist.
func same(a, b *resource) bool {
	return a == b || !a.unknown && !b.unknown && a.hash == b.hash
}

func byName(a, b *resource) int { return cmp.Compare(a.name, b.name) }

// tail is the virtual hosts of such a route configuration, encoded as its fields.
type tail struct {
	hosts  []*routev3.VirtualHost
	bytes  [][]byte // of each
	pieces [][]byte // of all that do not follow the resource's content in memory; neighbours in memory are one piece
	size   int      // of all pieces
}
