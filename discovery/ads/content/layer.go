package content

import (
	"crypto/sha256"
	"hash"
	"slices"
	"weak"
)

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
	return len(l.Resources)
}

// newLayer takes resources that are sorted by name.
func newLayer(k Kind, resources []*Resource) *layer { return newLayerFrom(nil, k, resources) }

// newLayerFrom is newLayer for resources that may be much the same as those of another layer; from may be nil.
func newLayerFrom(from *layer, k Kind, resources []*Resource) *layer {
	l := &layer{part: part{kind: k, Resources: resources}, runs: make([]digest, 0, (len(resources)+runLength-1)/runLength)}
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
func (l *layer) patch(places []int, other func(at int) *Resource) *layer {
	out := &layer{part: part{kind: l.kind}, chosen: l.chosen, since: weak.Make(l)}
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
func (l *layer) minus(other *layer) *layer {
	missing := slices.DeleteFunc(slices.Clone(l.Resources), func(r *Resource) bool { return other.find(r.Name) != nil })
	if len(missing) == len(l.Resources) {
		return l
	}
	out := newLayer(l.kind, missing)
	out.chosen = l.chosen
	return out
}

// manyResources is the number of resources of a layer from which its difference to another layer is cached.
const manyResources = 16
