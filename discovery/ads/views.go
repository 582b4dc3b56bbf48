package ads

import (
	"runtime"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// snapshot holds all resources for the proxies of one view, encoded.
type snapshot [kinds]*set

// views are those of one mesh: each is made once, when the first proxy needs it. Unchanged resources are reused from the
// views before, including their bytes.
type views struct {
	mesh  *model.Mesh
	share *share
	vault *vault
	span  trace.Span // of the push
	work  *work
	same  bool // they are of the mesh of the views before
	*built
	last atomic.Pointer[built] // of the views before; nil once there are next ones
}

// built holds the results made from a mesh. Both halves of a view are kept separately, so that a thousand workloads
// share the encoding of the services that they may call.
type built struct {
	outbound  memo[xds.Outbound, *half]
	inbound   memo[xds.Inbound, *half]
	sets      memo[pair[*layer], *set]
	tables    memo[xds.Outbound, *set] // of names
	snapshots memo[reader, *snapshot]
	firsts    sync.Map      // role → *half: the outbound half that was made first
	leads     sync.Mutex    // held while the first is made
	room      chan struct{} // for halves of outbound that are being made
}

// follow returns the views of m after vs, which may be nil.
func (vs *views) follow(m *model.Mesh, in *interner) *views {
	next := &views{mesh: m, share: newShare(in), vault: &vault{}, span: silent(), built: &built{room: make(chan struct{}, runtime.GOMAXPROCS(0))}}
	next.work = next.share.work
	if vs != nil {
		next.vault = vs.vault
		next.last.Store(vs.built)
		vs.last.Store(nil) // two generations are kept, not all
	}
	return next
}

type half struct {
	layers [kinds]*layer
	inputs xds.InboundInputs // its inputs; for inbound only

	resources *xds.Resources // as made by xds; the next ones are made from them; for outbound only
}
