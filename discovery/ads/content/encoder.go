package content

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
	views   *Views
	old     *half // the same one of the generation before
	sibling *half // of another view

	patched bool         // the messages are those of old, except for some in these places
	places  [Kinds][]int // of each list
}

func (e encoder) encode(r *xds.Resources) *half {
	var patch xds.Patch
	if e.old != nil {
		patch, e.patched = r.PatchOf(e.old.resources)
	}
	e.places = [Kinds][]int{CDS: patch.Clusters, EDS: patch.Endpoints, RDS: patch.Routes}
	return &half{layers: [Kinds]*layer{
		CDS: layerOf(e, CDS, r, func(r *xds.Resources) []*clusterv3.Cluster { return r.Clusters }, (*clusterv3.Cluster).GetName),
		EDS: layerOf(e, EDS, r, func(r *xds.Resources) []*endpointv3.ClusterLoadAssignment { return r.Endpoints },
			(*endpointv3.ClusterLoadAssignment).GetClusterName),
		LDS: layerOf(e, LDS, r, func(r *xds.Resources) []*listenerv3.Listener { return r.Listeners }, (*listenerv3.Listener).GetName),
		RDS: layerOf(e, RDS, r, func(r *xds.Resources) []*routev3.RouteConfiguration { return r.Routes }, (*routev3.RouteConfiguration).GetName),
	}}
}

type message interface {
	comparable
	proto.Message
}

func layerOf[T message](e encoder, k Kind, r *xds.Resources, of func(*xds.Resources) []T, name func(T) string) *layer {
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
		return e.old.layers[k].patch(e.places[k], func(at int) *Resource {
			e.views.Work.Looked.Add(1)
			m := of(r)[at]
			return resourceOf(e, k, all, name(m), m)
		})
	}
	e.views.Work.Looked.Add(int64(len(of(r))))
	resources := make([]*Resource, 0, len(of(r)))
	for _, m := range of(r) {
		resources = append(resources, resourceOf(e, k, all, name(m), m))
	}
	var from *layer
	for _, known := range all {
		if from = known.layer; slices.Equal(resources, from.Resources) {
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
func (e *pairs[T]) find(name string, m T) *Resource {
	if e.next >= len(e.messages) || e.messages[e.next] != m {
		at, ok := e.layer.index(name)
		if !ok || at >= len(e.messages) || e.messages[at] != m {
			return nil
		}
		e.next = at
	}
	e.next++
	return e.layer.Resources[e.next-1]
}

// resourceOf encodes a message, unless the generation before or another view has the same pointer. If a new message has
// the same content as before, the old bytes are kept.
func resourceOf[T message](e encoder, k Kind, all []*pairs[T], name string, m T) *Resource {
	for _, known := range all {
		if r := known.find(name, m); r != nil {
			return r
		}
	}
	var others []*Resource
	for _, known := range all {
		if other := known.layer.find(name); other != nil {
			others = append(others, other)
		}
	}
	r := Encode(name, m, others...)
	e.views.Work.Encoded.add(k.String(), name)
	for _, other := range others {
		if Same(other, r) {
			return other
		}
	}
	return r
}
