package content

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/pilotlight/pilotlight/discovery/xds"
)

func (vs *Views) outbound(v xds.Outbound) *half {
	v = v.In(vs.Mesh) // proxies without a relevant difference share it
	return vs.built.outbound.Get(v, func() *half {
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

// inbound returns the inbound half. It is made once for each proxy, so its inputs are compared first: with equal inputs
// the old half is reused.
func (vs *Views) inbound(v xds.Inbound) *half {
	return vs.built.inbound.Get(v, func() *half {
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
