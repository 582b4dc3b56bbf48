package ads

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// Another control plane requests the objects that configuration is made of, as from Istio's API generator (MCP over
// xDS): its stream's node has the metadata GENERATOR "api". Every type is answered once, with all objects or with none,
// and again when its objects change. There are few such clients, so only the encoding of each object is shared.

// objectSet holds all objects of a type.
type objectSet struct {
	resources []*anypb.Any
	version   string
}

// objects makes the sets of the newest mesh, and wakes the streams that wait for newer ones.
type objects struct {
	mu      sync.Mutex
	of      *model.Mesh
	sets    map[string]objectSet
	encoded map[*model.Object]*anypb.Any
	changed chan struct{} // closed by the next generation
}

func (o *objects) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed != nil {
		close(o.changed)
	}
	o.changed = make(chan struct{})
}

// next is closed when there is a newer generation.
func (o *objects) next() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.changed
}

// all returns the sets of a mesh. An object that was in the mesh before is not encoded again.
func (o *objects) all(m *model.Mesh) map[string]objectSet {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == m {
		return o.sets
	}
	encoded := map[*model.Object]*anypb.Any{}
	all := xds.Objects(m, func(object *model.Object) *anypb.Any {
		encoded[object] = o.encoded[object]
		if encoded[object] == nil {
			encoded[object] = xds.EncodeObject(object)
		}
		return encoded[object]
	})
	sets := make(map[string]objectSet, len(all))
	for url, resources := range all {
		sum := sha256.New()
		for _, r := range resources {
			one := sha256.Sum256(r.Value)
			sum.Write(one[:])
		}
		sets[url] = objectSet{resources, hex.EncodeToString(sum.Sum(nil)[:8])}
	}
	o.of, o.sets, o.encoded = m, sets, encoded
	return sets
}
