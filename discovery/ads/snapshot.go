package ads

import (
	"sync"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// snapshot is everything for the proxies of one view, encoded.
type snapshot [kinds]*set

// generation is one mesh and the snapshots that were made of it: each once, when the first proxy asks. Both halves of
// a view are kept on their own, so that a thousand workloads share the encoding of what they may call.
type generation struct {
	mesh      *model.Mesh
	outbound  memo[xds.Outbound, *snapshot]
	inbound   memo[xds.Inbound, *snapshot]
	snapshots memo[xds.View, *snapshot]
}

func (g *generation) snapshot(v xds.View) *snapshot {
	return g.snapshots.get(v, func() *snapshot {
		out := g.outbound.get(v.Outbound, func() *snapshot { return newSnapshot(xds.BuildOutbound(g.mesh, v.Outbound)) })
		in := g.inbound.get(v.Inbound, func() *snapshot { return newSnapshot(xds.BuildInbound(g.mesh, v.Inbound)) })
		both := &snapshot{}
		for k := range kinds {
			both[k] = out[k].with(in[k])
		}
		return both
	})
}

func newSnapshot(r *xds.Resources) *snapshot {
	return &snapshot{
		cds: encodeClusters(r.Clusters),
		eds: encodeEndpoints(r.Endpoints),
		lds: encodeListeners(r.Listeners),
		rds: encodeRoutes(r.Routes),
	}
}

// memo makes each value once; whoever asks meanwhile waits for it.
type memo[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]func() V
}

func (m *memo[K, V]) get(key K, build func() V) V {
	m.mu.Lock()
	value, ok := m.values[key]
	if !ok {
		if m.values == nil {
			m.values = map[K]func() V{}
		}
		value = sync.OnceValue(build)
		m.values[key] = value
	}
	m.mu.Unlock()
	return value()
}
