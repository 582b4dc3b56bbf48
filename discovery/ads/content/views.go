package content

import (
	"runtime"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// Snapshot holds all resources for the proxies of one view, encoded.
type Snapshot [Kinds]*Set

// Views are those of one mesh: each is made once, when the first proxy needs it. Unchanged resources are reused from the
// views before, including their bytes.
type Views struct {
	Mesh  *model.Mesh
	Share *Share
	Vault *Vault
	Span  trace.Span // of the push
	Work  *Work
	Same  bool // they are of the mesh of the views before
	*built
	last atomic.Pointer[built] // of the views before; nil once there are next ones
}

// built holds the results made from a mesh. Both halves of a view are kept separately, so that a thousand workloads
// share the encoding of the services that they may call.
type built struct {
	outbound  memo[xds.Outbound, *half]
	inbound   memo[xds.Inbound, *half]
	sets      memo[pair[*layer], *Set]
	tables    memo[xds.Outbound, *Set] // of names
	Snapshots memo[Reader, *Snapshot]
	firsts    sync.Map      // role → *half: the outbound half that was made first
	leads     sync.Mutex    // held while the first is made
	room      chan struct{} // for halves of outbound that are being made
}

// Follow returns the views of m after vs, which may be nil.
func (vs *Views) Follow(m *model.Mesh, in *Interner) *Views {
	next := &Views{Mesh: m, Share: NewShare(in), Vault: &Vault{}, Span: Silent(), built: &built{room: make(chan struct{}, runtime.GOMAXPROCS(0))}}
	next.Work = next.Share.Work
	if vs != nil {
		next.Vault = vs.Vault
		next.last.Store(vs.built)
		vs.last.Store(nil) // two generations are kept, not all
	}
	return next
}

type half struct {
	layers [Kinds]*layer
	inputs xds.InboundInputs // its inputs; for inbound only

	resources *xds.Resources // as made by xds; the next ones are made from them; for outbound only
}
