package content

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// Snapshot holds all resources for the proxies of one view, encoded.
type Snapshot [Kinds]*Set

// Views are those of one mesh: each is made once, when the first proxy needs it. Unchanged resources are reused from
// the views before, including their bytes.
type Views struct {
	Mesh    *model.Mesh
	Share   *Share
	Secrets *Secrets
	Span    trace.Span // of the push
	Work    *Work
	Same    bool // they are of the mesh of the views before
	*built
	last atomic.Pointer[built] // of the views before; nil once there are next ones
}

// built holds the results made from a mesh. The outbound and the inbound view are kept separately, so that a thousand
// workloads share the encoding of the services that they may call.
type built struct {
	outbound  memo[xds.Outbound, *view]
	inbound   memo[xds.Inbound, *view]
	sets      memo[pair[*resourceSet], *Set]
	tables    memo[xds.Outbound, *Set] // of names
	Snapshots memo[Reader, *Snapshot]
	firsts    sync.Map      // role → *view: the outbound view that was made first
	leads     sync.Mutex    // held while the first is made
	room      chan struct{} // for outbound views that are being made
}

// Follow returns the views of m after vs, which may be nil.
func (vs *Views) Follow(m *model.Mesh, in *Interner) *Views {
	next := &Views{Mesh: m, Share: NewShare(in), Secrets: &Secrets{}, Span: Silent(), built: &built{room: make(chan struct{}, runtime.GOMAXPROCS(0))}}
	next.Work = next.Share.Work
	if vs != nil {
		next.Secrets = vs.Secrets
		next.last.Store(vs.built)
		vs.last.Store(nil) // two generations are kept, not all
	}
	return next
}

type view struct {
	sets   [Kinds]*resourceSet
	inputs xds.InboundInputs // its inputs; for inbound only

	resources *xds.Resources // as made by xds; the next ones are made from them; for outbound only
}

// Reader holds the properties of a stream on which its configuration depends, besides the mesh and the secrets: its
// view, whether it requests names, and, if it requests secrets, the service account of its certificate. The account is
// "" in plaintext; the client is then on this host.
type Reader struct {
	xds.View
	Names   bool
	Secrets bool
	Account string
}

func (vs *Views) outbound(v xds.Outbound) *view {
	v = v.In(vs.Mesh) // proxies without a relevant difference share it
	return vs.built.outbound.Get(v, func() *view {
		e := encoder{views: vs}
		if last := vs.last.Load(); last != nil {
			e.old = last.outbound.peek(v)
		}
		if e.old != nil && vs.Same {
			again := e.encode(e.old.resources)
			again.resources = e.old.resources
			return vs.built.show(v, again)
		}
		vs.Work.Rebuilt.add(roleOf(v), v.Namespace)
		span := Child(vs.Span, "rebuild view",
			trace.WithAttributes(attribute.String("role", roleOf(v)), attribute.String("namespace", v.Namespace)))
		defer span.End()
		defer vs.built.enter(v)()
		var before, sibling *xds.Resources
		if e.old != nil {
			before = e.old.resources
		}
		if e.sibling = vs.built.first(v); e.sibling != nil {
			sibling = e.sibling.resources
		}
		made := xds.RebuildWithSibling(before, sibling, vs.Mesh, v)
		encoding := Child(span, "encode")
		defer encoding.End()
		out := e.encode(made)
		out.resources = made
		return vs.built.show(v, out)
	})
}

// inbound returns the inbound view. It is made once for each proxy, so its inputs are compared first: with equal inputs
// the old view is reused.
func (vs *Views) inbound(v xds.Inbound) *view {
	return vs.built.inbound.Get(v, func() *view {
		inputs := xds.InboundOf(vs.Mesh, v)
		e := encoder{views: vs}
		if last := vs.last.Load(); last != nil {
			if e.old = last.inbound.peek(v); e.old != nil && e.old.inputs.Same(inputs) {
				return e.old
			}
		}
		made := e.encode(inputs.Build())
		made.inputs = inputs
		return made
	})
}

// enter waits for its turn to make an outbound view, and returns a function that ends the turn. When all proxies
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

// first returns another view that has much in common with v, nil while there is none.
func (b *built) first(v xds.Outbound) *view {
	if h, ok := b.firsts.Load(roleOf(v)); ok {
		return h.(*view)
	}
	return nil
}

// show makes h available for other views to reuse its bytes.
func (b *built) show(v xds.Outbound, h *view) *view {
	b.firsts.LoadOrStore(roleOf(v), h)
	return h
}

// roleOf returns the name of a view's role.
func roleOf(v xds.Outbound) string {
	switch {
	case v.Proxyless:
		return "proxyless"
	case v.Gateway:
		return "gateway"
	}
	return "sidecar"
}

// Snapshot returns what a reader gets. The first call for a view makes it, which may take seconds; others wait for
// that.
func (vs *Views) Snapshot(r Reader) *Snapshot {
	return vs.built.Snapshots.Get(r, func() *Snapshot {
		out, in := vs.outbound(r.Outbound), vs.inbound(r.Inbound)
		both := &Snapshot{}
		for k := range Kinds {
			if !k.Asked() {
				both[k] = vs.set(out.sets[k], in.sets[k])
			}
		}
		both[SDS] = vs.secrets(r, out.resources)
		both[NDS] = vs.table(r, out.resources)
		if last := vs.last.Load(); last != nil {
			if old := last.Snapshots.peek(r); old != nil {
				if old[SDS].Version == both[SDS].Version {
					both[SDS] = old[SDS]
				}
				if *old == *both {
					return old // a stream compares one pointer to see that nothing changed
				}
			}
		}
		return both
	})
}

// set stacks two resource sets. An empty inner resource set does not make a separate set.
func (vs *Views) set(out, in *resourceSet) *Set {
	key := pair[*resourceSet]{out, in}
	if len(in.Resources) == 0 {
		key.to = nil
	}
	return vs.built.sets.Get(key, func() *Set {
		if last := vs.last.Load(); last != nil {
			if old := last.sets.peek(key); old != nil {
				return old
			}
		}
		return combine(out.kind, out).with(combine(in.kind, in), (*resourceSet).minus)
	})
}

// Resources counts the resources that were made from the mesh. Resources that several views share count once.
func (vs *Views) Resources() (count [Kinds]int) {
	seen := map[*Resource]bool{}
	add := func(k Kind, list []*Resource) {
		for _, r := range list {
			if !seen[r] {
				seen[r] = true
				count[k]++
			}
		}
	}
	for _, h := range slices.Concat(vs.built.outbound.all(), vs.built.inbound.all()) {
		for k, l := range h.sets {
			if l != nil {
				add(Kind(k), l.Resources)
			}
		}
	}
	for _, s := range vs.Secrets.namespaces {
		add(SDS, s.set.All())
	}
	for _, s := range vs.built.tables.all() {
		add(NDS, s.All())
	}
	return count
}

// maxUnused is how many snapshots without a stream are kept. They share nearly everything with those that have one.
const maxUnused = 256

// Held returns the outbound views that are kept, of these views and of those before.
func (vs *Views) Held() []xds.Outbound {
	list := vs.built.outbound.keys()
	if last := vs.last.Load(); last != nil {
		list = append(list, last.outbound.keys()...)
	}
	return list
}

// HasUnused reports whether views that are kept, also those before, have one that no reader uses, or more than
// maxUnused snapshots that no reader uses.
func (vs *Views) HasUnused(read map[Reader]bool) bool {
	views, used := map[xds.Outbound]bool{}, map[xds.Outbound]bool{}
	for r := range read {
		if !views[r.Outbound] { // many readers share one, and to find the view of the mesh for it costs time
			views[r.Outbound], used[r.Outbound.In(vs.Mesh)] = true, true
		}
	}
	if slices.ContainsFunc(vs.Held(), func(v xds.Outbound) bool { return !used[v] }) {
		return true
	}
	for _, b := range []*built{vs.built, vs.last.Load()} {
		if b == nil {
			continue
		}
		unused := 0
		for _, r := range b.Snapshots.keys() {
			if !read[r] {
				unused++
			}
		}
		if unused > maxUnused {
			return true
		}
	}
	return false
}

const Scope = "github.com/pilotlight/pilotlight/discovery/ads"

// Silent is a span that records nothing.
func Silent() trace.Span { return trace.SpanFromContext(context.Background()) }

// Child begins a child of a span. If the parent has ended, the child records nothing.
func Child(parent trace.Span, name string, options ...trace.SpanStartOption) trace.Span {
	if !parent.IsRecording() {
		return Silent()
	}
	ctx := trace.ContextWithSpan(context.Background(), parent)
	_, span := parent.TracerProvider().Tracer(Scope).Start(ctx, name, options...)
	return span
}
