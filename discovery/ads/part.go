package ads

import (
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// variant is how changes are told.
type variant int

const (
	sotw  variant = iota // the state of the world
	delta                // what changed, and what is gone
	variants
)

func (v variant) String() string { return [variants]string{"sotw", "delta"}[v] }

// part is resources that travel together, with the bytes that they are in a response of either variant. Those are made
// when the first response needs them, and every other one of that content holds the same bytes.
type part struct {
	kind      kind
	resources []*resource
	wire      [variants]struct {
		once  sync.Once
		bytes []byte
	}
}

// find returns the resource of that name, nil where there is none, in a part that is sorted by name.
func (p *part) find(name string) *resource {
	i, ok := slices.BinarySearchFunc(p.resources, name, func(r *resource, name string) int {
		return strings.Compare(r.name, name)
	})
	if !ok {
		return nil
	}
	return p.resources[i]
}

// findBytes is find without a string of its own.
func (p *part) findBytes(name []byte) *resource {
	i, ok := slices.BinarySearchFunc(p.resources, name, func(r *resource, name []byte) int {
		switch { // the compiler makes no copy for these
		case r.name < string(name):
			return -1
		case r.name > string(name):
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return p.resources[i]
}

func (p *part) bytes(v variant) []byte {
	w := &p.wire[v]
	w.once.Do(func() {
		size := 0
		for _, r := range p.resources {
			size += len(r.content) + len(r.name) + frameSpace
		}
		w.bytes = make([]byte, 0, size)
		for _, r := range p.resources {
			w.bytes = appendFrame(w.bytes, p.kind, v, r)
		}
	})
	return w.bytes
}

// Fields of DiscoveryResponse and DeltaDiscoveryResponse; resources, type_url and nonce have one number in both.
const (
	fieldVersion   = 1
	fieldResources = 2
	fieldTypeURL   = 4
	fieldNonce     = 5
	fieldRemoved   = 6 // of the delta variant
)

// Fields of a delta's Resource.
const (
	fieldResourceVersion = 1
	fieldResource        = 2
	fieldResourceName    = 3
)

// frameSpace is room for the tags, the lengths and the version of a frame.
const frameSpace = 48

// appendFrame appends one resource as a field of a response. One that does not exist is an empty resource where Envoy
// would wait for one, a removal where the variant has removals, and nothing elsewhere.
func appendFrame(b []byte, k kind, v variant, r *resource) []byte {
	content := r.content
	switch {
	case r.exists():
	case v == sotw && !k.whole() && k != sds:
		content = k.empty(r.name).content
	case v == delta:
		return protowire.AppendString(protowire.AppendTag(b, fieldRemoved, protowire.BytesType), r.name)
	default:
		return b
	}
	b = protowire.AppendTag(b, fieldResources, protowire.BytesType)
	if v == sotw {
		return protowire.AppendBytes(b, content)
	}
	b = protowire.AppendVarint(b, uint64(sizeText(r.version)+sizeText(r.name)+protowire.SizeTag(1)+
		protowire.SizeBytes(len(content))))
	b = protowire.AppendString(protowire.AppendTag(b, fieldResourceVersion, protowire.BytesType), r.version)
	b = protowire.AppendBytes(protowire.AppendTag(b, fieldResource, protowire.BytesType), content)
	return protowire.AppendString(protowire.AppendTag(b, fieldResourceName, protowire.BytesType), r.name)
}

func sizeText(s string) int { return protowire.SizeTag(1) + protowire.SizeBytes(len(s)) }

// news is what a response tells.
type news struct {
	parts []*part
}

func (n *news) size() (count int) {
	for _, p := range n.parts {
		count += len(p.resources)
	}
	return count
}

// existing is n without names that do not exist, where there is no way to tell of them: an Envoy refuses a response
// that lacks the secret that it asked for, and goes on waiting without one.
func (n *news) existing() *news {
	out := &news{}
	for _, p := range n.parts {
		list := slices.DeleteFunc(slices.Clone(p.resources), func(r *resource) bool { return !r.exists() })
		switch len(list) {
		case 0:
		case len(p.resources):
			out.parts = append(out.parts, p)
		default:
			out.parts = append(out.parts, &part{kind: p.kind, resources: list})
		}
	}
	return out
}
