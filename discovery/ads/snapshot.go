package ads

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// snapshot is everything for the proxies of one view, encoded.
type snapshot [kinds]*set

// generation is one mesh and the snapshots that were made of it: each once, when the first proxy asks.
type generation struct {
	number int64
	mesh   *model.Mesh
	change model.Change
	share  *share
	built  *built
	last   atomic.Pointer[built] // of the generation before; nil once there is a next one
	work   *work
	span   trace.Span
	vault  *vault
	same   bool // it is of the mesh of the generation before
}

// built is what is made of a mesh. Both halves of a view are kept on their own, so that a thousand workloads share the
// encoding of what they may call.
type built struct {
	outbound  memo[xds.Outbound, *half]
	inbound   memo[xds.Inbound, *half]
	sets      memo[pair[*layer], *set]
	tables    memo[xds.Outbound, *set] // of names
	snapshots memo[reader, *snapshot]
	resources sync.Map      // proto.Message → *resource
	firsts    sync.Map      // role → *half, that of outbound which was made first
	leads     sync.Mutex    // held while the first is made
	room      chan struct{} // for halves of outbound that are being made
}

type half struct {
	layers [kinds]*layer
	inputs xds.InboundInputs // what it was made of, of inbound only

	resources *xds.Resources // as they were made, for the next ones to be made from; of outbound only
}

// follow makes the generation after g, which may be nil. What did not change is taken over, down to its bytes.
func (g *generation) follow(m *model.Mesh, c model.Change, in *interner) *generation {
	next := &generation{mesh: m, change: c, share: newShare(in), built: &built{room: make(chan struct{}, runtime.GOMAXPROCS(0))}, work: &work{}, span: silent(), number: 1}
	if g == nil {
		next.vault = &vault{}
	} else {
		next.number, next.vault = g.number+1, g.vault
		next.last.Store(g.built)
		g.last.Store(nil) // two generations are kept, not all
	}
	return next
}

func (g *generation) snapshot(r reader) *snapshot {
	return g.built.snapshots.get(r, func() *snapshot {
		out, in := g.outbound(r.Outbound), g.inbound(r.Inbound)
		both := &snapshot{}
		for k := range kinds {
			if !k.asked() {
				both[k] = g.set(out.layers[k], in.layers[k])
			}
		}
		both[sds] = g.secrets(r, out.resources)
		both[nds] = g.table(r, out.resources)
		if last := g.last.Load(); last != nil {
			if old := last.snapshots.peek(r); old != nil {
				if old[sds].version == both[sds].version {
					both[sds] = old[sds]
				}
				if *old == *both {
					return old // a stream sees at a glance that nothing changed
				}
			}
		}
		return both
	})
}

func (g *generation) outbound(v xds.Outbound) *half {
	v = v.In(g.mesh) // proxies that differ in nothing that matters share it
	return g.built.outbound.get(v, func() *half {
		e := encoder{g: g, last: g.last.Load(), messages: &g.built.resources}
		if e.last != nil {
			e.old = e.last.outbound.peek(v)
		}
		if e.old != nil && g.same {
			again := e.encode(e.old.resources)
			again.resources = e.old.resources
			return g.built.show(v, again)
		}
		g.work.rebuilt.add(roleOf(v), v.Namespace)
		span := under(g.span, "rebuild view", time.Now(),
			attribute.String("role", roleOf(v)), attribute.String("namespace", v.Namespace))
		defer span.End()
		defer g.built.enter(v)()
		var before, beside *xds.Resources
		if e.old != nil {
			before = e.old.resources
		}
		if e.beside = g.built.first(v); e.beside != nil {
			beside = e.beside.resources
		}
		made := xds.RebuildBeside(before, beside, g.mesh, v)
		encoding := under(span, "encode", time.Now())
		defer encoding.End()
		out := e.encode(made)
		out.resources = made
		return g.built.show(v, out)
	})
}

// enter waits for its turn to make a half of outbound, and returns what ends the turn. When all proxies connect at once, a
// hundred views would be made at once, none of them beside another: one is made first, then no more at a time than there are
// processors.
func (b *built) enter(v xds.Outbound) (leave func()) {
	if b.first(v) == nil {
		b.leads.Lock()
		if b.first(v) == nil {
			return b.leads.Unlock
		}
		b.leads.Unlock()
	}
	b.room <- struct{}{}
	return func() { <-b.room }
}

// first is a half of another view that has much in common with v, nil while there is none.
func (b *built) first(v xds.Outbound) *half {
	if h, ok := b.firsts.Load(roleOf(v)); ok {
		return h.(*half)
	}
	return nil
}

// show lets other views be built beside h.
func (b *built) show(v xds.Outbound, h *half) *half {
	b.firsts.LoadOrStore(roleOf(v), h)
	return h
}

// inbound is made once for each proxy, so what it is made of is looked at first.
func (g *generation) inbound(v xds.Inbound) *half {
	return g.built.inbound.get(v, func() *half {
		inputs := xds.InboundOf(g.mesh, v)
		e := encoder{g: g, last: g.last.Load(), messages: &sync.Map{}}
		if e.last != nil {
			if e.old = e.last.inbound.peek(v); e.old != nil && e.old.inputs.Same(inputs) {
				return e.old
			}
		}
		made := e.encode(inputs.Build())
		made.inputs = inputs
		return made
	})
}

// set stacks two layers. An empty inner one is not a reason for a set of its own.
func (g *generation) set(out, in *layer) *set {
	key := pair[*layer]{out, in}
	if len(in.resources) == 0 {
		key.to = nil
	}
	return g.built.sets.get(key, func() *set {
		if last := g.last.Load(); last != nil {
			if old := last.sets.peek(key); old != nil {
				return old
			}
		}
		return stack(out.kind, out).with(stack(in.kind, in), (*layer).minus)
	})
}

// encoder makes layers of messages.
type encoder struct {
	g        *generation
	last     *built
	old      *half     // the same one of the generation before
	beside   *half     // of another view
	messages *sync.Map // proto.Message → *resource, those of this generation
}

func (e encoder) encode(r *xds.Resources) *half {
	return &half{layers: [kinds]*layer{
		cds: layerOf(e, cds, r.Clusters, (*clusterv3.Cluster).GetName),
		eds: layerOf(e, eds, r.Endpoints, (*endpointv3.ClusterLoadAssignment).GetClusterName),
		lds: layerOf(e, lds, r.Listeners, (*listenerv3.Listener).GetName),
		rds: layerOf(e, rds, r.Routes, (*routev3.RouteConfiguration).GetName),
	}}
}

func layerOf[T proto.Message](e encoder, k kind, list []T, name func(T) string) *layer {
	var old *layer
	if e.old != nil {
		old = e.old.layers[k]
	}
	resources := make([]*resource, 0, len(list))
	for _, m := range list {
		resources = append(resources, e.resource(k, old, name(m), m))
	}
	for _, known := range []*half{e.old, e.beside} {
		if known != nil && slices.Equal(resources, known.layers[k].resources) {
			return known.layers[k]
		}
	}
	return newLayer(k, resources)
}

// resource encodes a message, unless it is the very one of the generation before, or of another view; of one that has
// the same content again the old bytes are kept.
func (e encoder) resource(k kind, old *layer, name string, m proto.Message) *resource {
	if r, ok := e.messages.Load(m); ok {
		return r.(*resource)
	}
	var r *resource
	if e.last != nil {
		if known, ok := e.last.resources.Load(m); ok {
			r = known.(*resource)
		}
	}
	if r == nil {
		r = encode(name, m)
		e.g.work.encoded.add(k.String(), name)
		if old != nil {
			if known := old.find(name); known != nil && same(known, r) {
				r = known
			}
		}
	}
	kept, _ := e.messages.LoadOrStore(m, r)
	return kept.(*resource)
}

// resources counts what was made of the mesh. What several views share is counted once.
func (g *generation) resources() (count [kinds]int) {
	seen := map[*resource]bool{}
	add := func(k kind, list []*resource) {
		for _, r := range list {
			if !seen[r] {
				seen[r] = true
				count[k]++
			}
		}
	}
	for _, h := range slices.Concat(g.built.outbound.all(), g.built.inbound.all()) {
		for k, l := range h.layers {
			if l != nil {
				add(kind(k), l.resources)
			}
		}
	}
	for _, s := range g.vault.shelves {
		add(sds, s.set.all())
	}
	for _, s := range g.built.tables.all() {
		add(nds, s.all())
	}
	return count
}
