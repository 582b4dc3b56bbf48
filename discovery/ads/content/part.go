package content

import (
	"slices"
	"strings"
	"sync"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// part is a list of resources that are sent together, with their bytes in a response of either variant. The bytes are
// made when the first response needs them, and all other responses with that content share them.
type part struct {
	kind      Kind
	Resources []*Resource
	wire      [Variants]struct {
		once   sync.Once
		pieces [][]byte
		size   int
	}
}

// large is the size in bytes from which a resource is sent without a copy. Smaller ones are copied into one buffer with
// their neighbours, since many buffers cost a quarter more CPU.
const large = 16 << 10

// find returns the resource of that name, or nil. The part must be sorted by name.
func (p *part) find(name string) *Resource {
	i, ok := p.index(name)
	if !ok {
		return nil
	}
	return p.Resources[i]
}

// index returns the position of the resource of that name, as find finds it.
func (p *part) index(name string) (int, bool) {
	return slices.BinarySearchFunc(p.Resources, name, func(r *Resource, name string) int {
		return strings.Compare(r.Name, name)
	})
}

// Pieces returns the bytes of the part in order, and their total size.
func (p *part) Pieces(v Variant) (pieces [][]byte, size int) {
	w := &p.wire[v]
	w.once.Do(func() {
		room := 0
		for _, r := range p.Resources {
			if room += len(r.Name) + frameSpace; r.size() < large {
				room += r.size()
			}
		}
		joined, from := make([]byte, 0, room), 0
		cut := func() {
			if from < len(joined) {
				w.pieces, from = append(w.pieces, joined[from:len(joined):len(joined)]), len(joined)
			}
		}
		for _, r := range p.Resources {
			f := frameOf(p.kind, v, r)
			if joined = f.appendHead(joined); f.size < large {
				joined = append(joined, f.content...)
				for _, piece := range f.rest {
					joined = append(joined, piece...)
				}
			} else {
				cut()
				w.pieces = append(append(w.pieces, f.content), f.rest...)
			}
			joined = f.appendTail(joined)
		}
		cut()
		for _, b := range w.pieces {
			w.size += len(b)
		}
	})
	return w.pieces, w.size
}

// Fields of DiscoveryResponse and DeltaDiscoveryResponse; resources have one number in both.
const (
	fieldResources = 2
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

// frame is one resource as a field of a response: head, content, tail.
type frame struct {
	Variant
	of      *Resource
	content []byte // nil for a removal, and for nothing
	rest    [][]byte
	size    int // of content and the rest
	removed bool
}

// frameOf returns the frame of a resource. For a resource that does not exist it is an empty resource if Envoy would
// wait for one, else a removal if the variant has removals, else nothing.
func frameOf(k Kind, v Variant, r *Resource) frame {
	f := frame{Variant: v, of: r, content: r.Content, rest: r.pieces(), size: r.size()}
	if !r.Exists() {
		if v == SotW && !k.Whole() && k != SDS {
			f.content = empty(k, r.Name).Content
			f.size = len(f.content)
		}
		f.removed = v == Delta
	}
	return f
}

func (f frame) appendHead(b []byte) []byte {
	switch {
	case f.removed:
		return protowire.AppendString(protowire.AppendTag(b, fieldRemoved, protowire.BytesType), f.of.Name)
	case f.content == nil:
		return b
	}
	b = protowire.AppendTag(b, fieldResources, protowire.BytesType)
	if f.Variant == Delta {
		b = protowire.AppendVarint(b, uint64(sizeText(f.of.Version)+sizeText(f.of.Name)+protowire.SizeTag(1)+
			protowire.SizeBytes(f.size)))
		b = protowire.AppendString(protowire.AppendTag(b, fieldResourceVersion, protowire.BytesType), f.of.Version)
		b = protowire.AppendTag(b, fieldResource, protowire.BytesType)
	}
	return protowire.AppendVarint(b, uint64(f.size))
}

func (f frame) appendTail(b []byte) []byte {
	if f.content == nil || f.Variant == SotW {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, fieldResourceName, protowire.BytesType), f.of.Name)
}

func sizeText(s string) int { return protowire.SizeTag(1) + protowire.SizeBytes(len(s)) }

// empty returns the answer for an unknown name of endpoints or routes: without an answer Envoy would wait.
func empty(k Kind, name string) *Resource {
	var m proto.Message = &routev3.RouteConfiguration{Name: name}
	if k == EDS {
		m = &endpointv3.ClusterLoadAssignment{ClusterName: name}
	}
	return Encode(name, m)
}
