package ads

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/xds"
)

// encoder makes layers of messages.
type encoder struct {
	views   *views
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
			e.views.work.looked.Add(1)
			m := of(r)[at]
			return resourceOf(e, k, all, name(m), m)
		})
	}
	e.views.work.looked.Add(int64(len(of(r))))
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
	e.views.work.encoded.add(k.String(), name)
	for _, other := range others {
		if same(other, r) {
			return other
		}
	}
	return r
}
