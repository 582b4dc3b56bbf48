package ads

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"weak"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
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

var deterministic = proto.MarshalOptions{Deterministic: true}

// encode encodes a message. It may share bytes with others that have the same parts.
func encode(name string, m proto.Message, others ...*resource) *resource {
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

// newResource returns the resource of an encoded message.
func newResource(name, typeURL string, message []byte) *resource {
	content := append(contentOf(typeURL, len(message), len(message)), message...)
	return newContent(name, content, message)
}

// contentOf returns the beginning of an encoded Any for a message of size bytes, with capacity for room bytes of the
// message.
func contentOf(typeURL string, size, room int) []byte {
	b := make([]byte, 0, 2*protowire.SizeTag(1)+protowire.SizeBytes(len(typeURL))+protowire.SizeVarint(uint64(size))+room)
	b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), typeURL)
	return protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.BytesType), uint64(size))
}

func newContent(name string, content, message []byte) *resource {
	r := &resource{name: name, content: content, hash: sha256.Sum256(message)}
	r.version = hex.EncodeToString(r.hash[:8])
	return r
}

// same reports whether two resources are known to have the same content, or both to not exist.
func same(a, b *resource) bool {
	return a == b || !a.unknown && !b.unknown && a.hash == b.hash
}

// layer is resources of one kind, immutable, sorted by name, each name once.
type layer struct {
	part
	version digest   // of the content: it survives a restart and is equal on every replica
	chosen  bool     // it holds the names of a client's subscription, whether they exist or not
	runs    []digest // version is made of these: one for each run of resources, so that a change costs only the digest of its run

	since  weak.Pointer[layer] // the layer that it was made of by replacing resources
	places []int               // positions of the replaced resources, in order; none if it was made otherwise
}

// runLength is how many resources share one digest.
const runLength = 64

// cost returns how many names a client made the layer hold; 0 for a nil layer.
func (l *layer) cost() int {
	if l == nil || !l.chosen {
		return 0
	}
	return len(l.resources)
}

// newLayer takes resources that are sorted by name.
func newLayer(k kind, resources []*resource) *layer { return newLayerFrom(nil, k, resources) }

// newLayerFrom is newLayer for resources that may be much the same as those of another layer; from may be nil.
func newLayerFrom(from *layer, k kind, resources []*resource) *layer {
	l := &layer{part: part{kind: k, resources: resources}, runs: make([]digest, 0, (len(resources)+runLength-1)/runLength)}
	h := sha256.New()
	for i := 0; i < len(resources); i += runLength {
		these := resources[i:min(i+runLength, len(resources))]
		if from != nil && len(from.resources) >= i+len(these) && (len(these) == runLength || len(from.resources) == len(resources)) &&
			slices.Equal(these, from.resources[i:i+len(these)]) {
			l.runs = append(l.runs, from.runs[i/runLength])
			continue
		}
		l.runs = append(l.runs, digestOf(h, these))
	}
	l.version = versionOfRuns(l.runs)
	return l
}

// patch returns l with some resources replaced by others of the same names; l itself if they are the same.
func (l *layer) patch(places []int, other func(at int) *resource) *layer {
	out := &layer{part: part{kind: l.kind}, chosen: l.chosen, since: weak.Make(l)}
	for _, at := range slices.Compact(slices.Sorted(slices.Values(places))) {
		r := other(at)
		if r == l.resources[at] {
			continue
		}
		if out.places == nil {
			out.resources, out.runs = slices.Clone(l.resources), slices.Clone(l.runs)
		}
		out.resources[at] = r
		out.places = append(out.places, at)
	}
	if out.places == nil {
		return l
	}
	h, last := sha256.New(), -1
	for _, at := range out.places {
		if run := at / runLength; run != last {
			last = run
			out.runs[run] = digestOf(h, out.resources[run*runLength:min((run+1)*runLength, len(out.resources))])
		}
	}
	out.version = versionOfRuns(out.runs)
	return out
}

func digestOf(h hash.Hash, run []*resource) digest {
	h.Reset()
	for _, r := range run {
		addVersion(h, r.name, r.hash)
	}
	return digest(h.Sum(nil))
}

func versionOfRuns(runs []digest) digest {
	all := make([]byte, 0, len(runs)*sha256.Size)
	for _, d := range runs {
		all = append(all, d[:]...)
	}
	return sha256.Sum256(all)
}

func addVersion(h hash.Hash, name string, content digest) {
	h.Write([]byte(name))
	h.Write([]byte{0})
	h.Write(content[:])
}

// set holds all resources of one kind that concern a stream, immutable. Resources that many proxies share and a proxy's
// own ones are separate layers, so that a thousand sets cost little more than one. A name is in one layer only.
type set struct {
	kind    kind
	layers  []*layer
	version string
}

// newSet takes resources that are sorted by name.
func newSet(k kind, resources []*resource) *set { return stack(k, newLayer(k, resources)) }

// chosenSet is newSet for resources that a client named.
func chosenSet(k kind, resources []*resource) *set {
	l := newLayer(k, resources)
	l.chosen = true
	return stack(k, l)
}

func stack(k kind, layers ...*layer) *set {
	layers = slices.DeleteFunc(layers, func(l *layer) bool { return len(l.resources) == 0 })
	versions := make([]byte, 0, 4*(1+sha256.Size)) // for as many layers as most sets have, so that it does not allocate
	for _, l := range layers {
		versions = append(append(versions, 0), l.version[:]...)
	}
	version := sha256.Sum256(versions)
	return &set{kind: k, layers: layers, version: hex.EncodeToString(version[:8])}
}

// find returns the resource of that name, or nil. The set may be nil.
func (s *set) find(name string) *resource {
	if s == nil {
		return nil
	}
	for _, l := range s.layers {
		if r := l.find(name); r != nil {
			return r
		}
	}
	return nil
}

func (s *set) size() (n int) {
	for _, l := range s.layers {
		n += len(l.resources)
	}
	return n
}

// all returns every resource, by layer and name.
func (s *set) all() []*resource {
	out := make([]*resource, 0, s.size())
	for _, l := range s.layers {
		out = append(out, l.resources...)
	}
	return out
}

// with returns s plus the resources of others whose names s does not have. minus returns the resources that a layer has
// and another one lacks.
func (s *set) with(others *set, minus func(l, other *layer) *layer) *set {
	if others == nil || s == others {
		return s
	}
	layers := slices.Clone(s.layers)
	for _, l := range others.layers {
		if slices.Contains(s.layers, l) {
			continue
		}
		for _, own := range s.layers {
			l = minus(l, own)
		}
		if len(l.resources) > 0 {
			layers = append(layers, l)
		}
	}
	if len(layers) == len(s.layers) {
		return s
	}
	return stack(s.kind, layers...)
}

// minus returns l without the names that other has; l itself if no name is left out.
func (l *layer) minus(other *layer) *layer {
	missing := slices.DeleteFunc(slices.Clone(l.resources), func(r *resource) bool { return other.find(r.name) != nil })
	if len(missing) == len(l.resources) {
		return l
	}
	out := newLayer(l.kind, missing)
	out.chosen = l.chosen
	return out
}

func byName(a, b *resource) int { return cmp.Compare(a.name, b.name) }
