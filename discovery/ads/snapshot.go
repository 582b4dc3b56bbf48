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

// snapshot holds all resources for the proxies of one view, encoded.
type snapshot [kinds]*set

// generation is one mesh and the snapshots that were made of it: each once, when the first proxy needs it.
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

type half struct {
	layers [kinds]*layer
	inputs xds.InboundInputs // its inputs; for inbound only

	resources *xds.Resources // as made by xds; the next ones are made from them; for outbound only
}

// follow makes the generation after g, which may be nil. Unchanged resources are reused, including their bytes.
func (g *generation) follow(m *model.Mesh, c model.Change, in *interner) *generation {
	next := &generation{mesh: m, change: c, share: newShare(in), built: &built{room: make(chan struct{}, runtime.GOMAXPROCS(0))}, span: silent(), number: 1}
	next.work = next.share.work
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
					return old // a stream compares one pointer to see that nothing changed
				}
			}
		}
		return both
	})
}

func (g *generation) outbound(v xds.Outbound) *half {
	v = v.In(g.mesh) // proxies without a relevant difference share it
	return g.built.outbound.get(v, func() *half {
		e := encoder{g: g}
		if last := g.last.Load(); last != nil {
			e.old = last.outbound.peek(v)
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
		var before, sibling *xds.Resources
		if e.old != nil {
			before = e.old.resources
		}
		if e.sibling = g.built.first(v); e.sibling != nil {
			sibling = e.sibling.resources
		}
		made := xds.RebuildWithSibling(before, sibling, g.mesh, v)
		encoding := under(span, "encode", time.Now())
		defer encoding.End()
		out := e.encode(made)
		out.resources = made
		return g.built.show(v, out)
	})
}

// enter waits for its turn to make an outbound half, and returns a function that ends the turn. When all proxies
// connect at once, a hundred views would be made at once, and none could reuse bytes of another. So one is made first,
// then at most as many at a time as there are processors.
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

// first returns a half of another view that has much in common with v, nil while there is none.
func (b *built) first(v xds.Outbound) *half {
	if h, ok := b.firsts.Load(roleOf(v)); ok {
		return h.(*half)
	}
	return nil
}

// show makes h available for other views to reuse its bytes.
func (b *built) show(v xds.Outbound, h *half) *half {
	b.firsts.LoadOrStore(roleOf(v), h)
	return h
}

// inbound returns the inbound half. It is made once for each proxy, so its inputs are compared first: with equal inputs
// the old half is reused.
func (g *generation) inbound(v xds.Inbound) *half {
	return g.built.inbound.get(v, func() *half {
		inputs := xds.InboundOf(g.mesh, v)
		e := encoder{g: g}
		if last := g.last.Load(); last != nil {
			if e.old = last.inbound.peek(v); e.old != nil && e.old.inputs.Same(inputs) {
				return e.old
			}
		}
		made := e.encode(inputs.Build())
		made.inputs = inputs
		return made
	})
}

// set stacks two layers. An empty inner layer does not make a separate set.
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
	g       *generation
	old     *half // the same one of the generation before
	sibling *half // of another view

	patched bool         // the messages are those of old, except for some in these places
	places  [kinds][]int // of each list
}

func (e encoder) encode(r *xds.Resources) *half {
	var patch xds.Patch
	if e.old != nil {
		patch, e.patched = r.PatchOf(e.old.resources)
	}
	e.places = [kinds][]int{cds: patch.Clusters, eds: patch.Endpoints, rds: patch.Routes}
	return &half{layers: [kinds]*layer{
		cds: layerOf(e, cds, r, func(r *xds.Resources) []*clusterv3.Cluster { return r.Clusters }, (*clusterv3.Cluster).GetName),
		eds: layerOf(e, eds, r, func(r *xds.Resources) []*endpointv3.ClusterLoadAssignment { return r.Endpoints },
			(*endpointv3.ClusterLoadAssignment).GetClusterName),
		lds: layerOf(e, lds, r, func(r *xds.Resources) []*listenerv3.Listener { return r.Listeners }, (*listenerv3.Listener).GetName),
		rds: layerOf(e, rds, r, func(r *xds.Resources) []*routev3.RouteConfiguration { return r.Routes }, (*routev3.RouteConfiguration).GetName),
	}}
}

type message interface {
	comparable
	proto.Message
}

func layerOf[T message](e encoder, k kind, r *xds.Resources, of func(*xds.Resources) []T, name func(T) string) *layer {
	var all []*pairs[T]
	for _, h := range []*half{e.old, e.sibling} {
		if h != nil {
			known := &pairs[T]{layer: h.layers[k]}
			if h.resources != nil {
				known.messages = of(h.resources)
			}
			all = append(all, known)
		}
	}
	if e.patched {
		return e.old.layers[k].patch(e.places[k], func(at int) *resource {
			e.g.work.looked.Add(1)
			m := of(r)[at]
			return resourceOf(e, k, all, name(m), m)
		})
	}
	e.g.work.looked.Add(int64(len(of(r))))
	resources := make([]*resource, 0, len(of(r)))
	for _, m := range of(r) {
		resources = append(resources, resourceOf(e, k, all, name(m), m))
	}
	var from *layer
	for _, known := range all {
		if from = known.layer; slices.Equal(resources, from.resources) {
			return from
		}
	}
	return newLayerFrom(from, k, resources)
}

// pairs is a layer with the messages from which it was made.
type pairs[T message] struct {
	messages []T
	layer    *layer
	next     int // where the message is expected, since both lists have the same order
}

// find returns the resource that was made from m (the same pointer).
func (e *pairs[T]) find(name string, m T) *resource {
	if e.next >= len(e.messages) || e.messages[e.next] != m {
		at, ok := e.layer.index(name)
		if !ok || at >= len(e.messages) || e.messages[at] != m {
			return nil
		}
		e.next = at
	}
	e.next++
	return e.layer.resources[e.next-1]
}

// resourceOf encodes a message, unless the generation before or another view has the same pointer. If a new message has
// the same content as before, the old bytes are kept.
func resourceOf[T message](e encoder, k kind, all []*pairs[T], name string, m T) *resource {
	for _, known := range all {
		if r := known.find(name, m); r != nil {
			return r
		}
	}
	var others []*resource
	for _, known := range all {
		if other := known.layer.find(name); other != nil {
			others = append(others, other)
		}
	}
	r := encode(name, m, others...)
	e.g.work.encoded.add(k.String(), name)
	for _, other := range others {
		if same(other, r) {
			return other
		}
	}
	return r
}

// resources counts the resources that were made from the mesh. Resources that several views share count once.
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
