package content

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
	"strings"
	"sync"
	"weak"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Set holds all resources of one kind that concern a stream, immutable. Resources that many proxies share and a proxy's
// own ones are separate resource sets, so that a thousand sets cost little more than one. A name is in one resource set
// only.
type Set struct {
	Kind    Kind
	sets    []*resourceSet
	Version string
}

// NewSet takes resources that are sorted by name.
func NewSet(k Kind, resources []*Resource) *Set { return combine(k, newResourceSet(k, resources)) }

// SetOf is NewSet for resources in any order, which it sorts.
func SetOf(k Kind, resources []*Resource) *Set {
	slices.SortFunc(resources, byName)
	return NewSet(k, resources)
}

// chosenSet is NewSet for resources that a client named.
func chosenSet(k Kind, resources []*Resource) *Set {
	l := newResourceSet(k, resources)
	l.chosen = true
	return combine(k, l)
}

func combine(k Kind, sets ...*resourceSet) *Set {
	sets = slices.DeleteFunc(sets, func(l *resourceSet) bool { return len(l.Resources) == 0 })
	versions := make([]byte, 0, 4*(1+sha256.Size)) // for as many resource sets as most sets have, so that it does not allocate
	for _, l := range sets {
		versions = append(append(versions, 0), l.version[:]...)
	}
	version := sha256.Sum256(versions)
	return &Set{Kind: k, sets: sets, Version: hex.EncodeToString(version[:8])}
}

// Find returns the resource of that name, or nil. The set may be nil.
func (s *Set) Find(name string) *Resource {
	if s == nil {
		return nil
	}
	for _, l := range s.sets {
		if r := l.find(name); r != nil {
			return r
		}
	}
	return nil
}

// Size returns the number of resources, with names that do not exist.
func (s *Set) Size() (n int) {
	for _, l := range s.sets {
		n += len(l.Resources)
	}
	return n
}

// All returns every resource, by resource set and name.
func (s *Set) All() []*Resource {
	out := make([]*Resource, 0, s.Size())
	for _, l := range s.sets {
		out = append(out, l.Resources...)
	}
	return out
}

// with returns s plus the resources of others whose names s does not have. minus returns the resources that a resource
// set has and another one lacks.
func (s *Set) with(others *Set, minus func(l, other *resourceSet) *resourceSet) *Set {
	if others == nil || s == others {
		return s
	}
	sets := slices.Clone(s.sets)
	for _, l := range others.sets {
		if slices.Contains(s.sets, l) {
			continue
		}
		for _, own := range s.sets {
			l = minus(l, own)
		}
		if len(l.Resources) > 0 {
			sets = append(sets, l)
		}
	}
	if len(sets) == len(s.sets) {
		return s
	}
	return combine(s.Kind, sets...)
}

// largest returns the resource set with the most resources, nil if there is none.
func (s *Set) largest() (largest *resourceSet) {
	for _, l := range s.sets {
		if largest == nil || len(l.Resources) > len(largest.Resources) {
			largest = l
		}
	}
	return largest
}

// resourceSet is resources of one kind, immutable, sorted by name, each name once.
type resourceSet struct {
	resourceList
	version digest   // of the content: it survives a restart and is equal on every replica
	chosen  bool     // it holds the names of a client's subscription, whether they exist or not
	runs    []digest // version is made of these: one for each run of resources, so that a change costs only the digest of its run

	since  weak.Pointer[resourceSet] // the resource set that it was made of by replacing resources
	places []int                     // positions of the replaced resources, in order; none if it was made otherwise
}

// runLength is how many resources share one digest.
const runLength = 64

// cost returns how many names a client made the resource set hold; 0 for a nil resource set.
func (l *resourceSet) cost() int {
	if l == nil || !l.chosen {
		return 0
	}
	return len(l.Resources)
}

// newResourceSet takes resources that are sorted by name.
func newResourceSet(k Kind, resources []*Resource) *resourceSet {
	return newResourceSetFrom(nil, k, resources)
}

// newResourceSetFrom is newResourceSet for resources that may be much the same as those of another resource set; from
// may be nil.
func newResourceSetFrom(from *resourceSet, k Kind, resources []*Resource) *resourceSet {
	l := &resourceSet{resourceList: resourceList{kind: k, Resources: resources}, runs: make([]digest, 0, (len(resources)+runLength-1)/runLength)}
	h := sha256.New()
	for i := 0; i < len(resources); i += runLength {
		these := resources[i:min(i+runLength, len(resources))]
		if from != nil && len(from.Resources) >= i+len(these) && (len(these) == runLength || len(from.Resources) == len(resources)) &&
			slices.Equal(these, from.Resources[i:i+len(these)]) {
			l.runs = append(l.runs, from.runs[i/runLength])
			continue
		}
		l.runs = append(l.runs, digestOf(h, these))
	}
	l.version = versionOfRuns(l.runs)
	return l
}

// patch returns l with some resources replaced by others of the same names; l itself if they are the same.
func (l *resourceSet) patch(places []int, other func(at int) *Resource) *resourceSet {
	out := &resourceSet{resourceList: resourceList{kind: l.kind}, chosen: l.chosen, since: weak.Make(l)}
	for _, at := range slices.Compact(slices.Sorted(slices.Values(places))) {
		r := other(at)
		if r == l.Resources[at] {
			continue
		}
		if out.places == nil {
			out.Resources, out.runs = slices.Clone(l.Resources), slices.Clone(l.runs)
		}
		out.Resources[at] = r
		out.places = append(out.places, at)
	}
	if out.places == nil {
		return l
	}
	h, last := sha256.New(), -1
	for _, at := range out.places {
		if run := at / runLength; run != last {
			last = run
			out.runs[run] = digestOf(h, out.Resources[run*runLength:min((run+1)*runLength, len(out.Resources))])
		}
	}
	out.version = versionOfRuns(out.runs)
	return out
}

func digestOf(h hash.Hash, run []*Resource) digest {
	h.Reset()
	for _, r := range run {
		addVersion(h, r.Name, r.hash)
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

// minus returns l without the names that other has; l itself if no name is left out.
func (l *resourceSet) minus(other *resourceSet) *resourceSet {
	missing := slices.DeleteFunc(slices.Clone(l.Resources), func(r *Resource) bool { return other.find(r.Name) != nil })
	if len(missing) == len(l.Resources) {
		return l
	}
	out := newResourceSet(l.kind, missing)
	out.chosen = l.chosen
	return out
}

// manyResources is the number of resources of a resource set from which its difference to another resource set is
// cached.
const manyResources = 16

// resourceList is a list of resources that are sent together, with their bytes in a response of either variant. The
// bytes are made when the first response needs them, and all other responses with that content share them.
type resourceList struct {
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

// find returns the resource of that name, or nil. The list must be sorted by name.
func (p *resourceList) find(name string) *Resource {
	i, ok := p.index(name)
	if !ok {
		return nil
	}
	return p.Resources[i]
}

// index returns the position of the resource of that name, as find finds it.
func (p *resourceList) index(name string) (int, bool) {
	return slices.BinarySearchFunc(p.Resources, name, func(r *Resource, name string) int {
		return strings.Compare(r.Name, name)
	})
}

// Pieces returns the bytes of the list in order, and their total size.
func (p *resourceList) Pieces(v Variant) (pieces [][]byte, size int) {
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
