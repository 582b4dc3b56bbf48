package content

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pilotlight/pilotlight/discovery/xds"
)

// encoder makes resource sets of messages.
type encoder struct {
	views   *Views
	old     *view // the same one of the generation before
	sibling *view // of another view

	patched bool         // the messages are those of old, except for some in these places
	places  [Kinds][]int // of each list
}

func (e encoder) encode(r *xds.Resources) *view {
	var patch xds.Patch
	if e.old != nil {
		patch, e.patched = r.PatchOf(e.old.resources)
	}
	e.places = [Kinds][]int{CDS: patch.Clusters, EDS: patch.Endpoints, RDS: patch.Routes}
	return &view{sets: [Kinds]*resourceSet{
		CDS: resourceSetOf(e, CDS, r, func(r *xds.Resources) []*clusterv3.Cluster { return r.Clusters }, (*clusterv3.Cluster).GetName),
		EDS: resourceSetOf(e, EDS, r, func(r *xds.Resources) []*endpointv3.ClusterLoadAssignment { return r.Endpoints },
			(*endpointv3.ClusterLoadAssignment).GetClusterName),
		LDS: resourceSetOf(e, LDS, r, func(r *xds.Resources) []*listenerv3.Listener { return r.Listeners }, (*listenerv3.Listener).GetName),
		RDS: resourceSetOf(e, RDS, r, func(r *xds.Resources) []*routev3.RouteConfiguration { return r.Routes }, (*routev3.RouteConfiguration).GetName),
	}}
}

type message interface {
	comparable
	proto.Message
}

func resourceSetOf[T message](e encoder, k Kind, r *xds.Resources, of func(*xds.Resources) []T, name func(T) string) *resourceSet {
	var all []*pairs[T]
	for _, h := range []*view{e.old, e.sibling} {
		if h != nil {
			known := &pairs[T]{set: h.sets[k]}
			if h.resources != nil {
				known.messages = of(h.resources)
			}
			all = append(all, known)
		}
	}
	if e.patched {
		return e.old.sets[k].patch(e.places[k], func(at int) *Resource {
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
	var from *resourceSet
	for _, known := range all {
		if from = known.set; slices.Equal(resources, from.Resources) {
			return from
		}
	}
	return newResourceSetFrom(from, k, resources)
}

// pairs is a resource set with the messages from which it was made.
type pairs[T message] struct {
	messages []T
	set      *resourceSet
	next     int // where the message is expected, since both lists have the same order
}

// find returns the resource that was made from m (the same pointer).
func (e *pairs[T]) find(name string, m T) *Resource {
	if e.next >= len(e.messages) || e.messages[e.next] != m {
		at, ok := e.set.index(name)
		if !ok || at >= len(e.messages) || e.messages[at] != m {
			return nil
		}
		e.next = at
	}
	e.next++
	return e.set.Resources[e.next-1]
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
		if other := known.set.find(name); other != nil {
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

// Encode encodes a message. It may share bytes with others that have the same parts.
func Encode(name string, m proto.Message, others ...*Resource) *Resource {
	if routes, ok := m.(*routev3.RouteConfiguration); ok && len(routes.VirtualHosts) >= manyHosts {
		return encodeRoutes(name, routes, others)
	}
	options := deterministic
	size := options.Size(m)
	options.UseCachedSize = true
	content := contentOf(typeOf(m), size, size)
	from := len(content)
	content = mustAppend(options, content, m)
	return newContent(name, content, content[from:])
}

// newResource returns the resource of an encoded message.
func newResource(name, typeURL string, message []byte) *Resource {
	content := append(contentOf(typeURL, len(message), len(message)), message...)
	return newContent(name, content, message)
}

func newContent(name string, content, message []byte) *Resource {
	r := &Resource{Name: name, Content: content, hash: sha256.Sum256(message)}
	r.Version = hex.EncodeToString(r.hash[:8])
	return r
}

// manyHosts is the number of virtual hosts from which a route configuration shares the bytes of hosts that others have
// too. A route configuration holds every host of a port, and those of two namespaces differ in a few.
const manyHosts = 64

// encodeRoutes encodes a route configuration. For a host that another configuration has too (the same pointer), it
// reuses the bytes. The content is the same with and without others. Newly encoded hosts lie side by side in memory,
// and all of that memory stays as long as one of these hosts is used.
func encodeRoutes(name string, m *routev3.RouteConfiguration, others []*Resource) *Resource {
	known := hostsOf(others)
	begin := encodeWithoutHosts(m)
	size, fresh := len(begin), len(begin)
	for _, host := range m.VirtualHosts {
		if b, ok := known[host]; ok {
			size += len(b)
			continue
		}
		n := protowire.SizeTag(fieldVirtualHosts) + protowire.SizeBytes(deterministic.Size(host))
		size, fresh = size+n, fresh+n
	}
	r := &Resource{Name: name, tail: &tail{hosts: m.VirtualHosts, bytes: make([][]byte, 0, len(m.VirtualHosts))}}
	made := contentOf(typeOf(m), size, fresh)
	head := len(made)
	made = append(made, begin...)
	r.Content = made
	for _, host := range m.VirtualHosts {
		b, ok := known[host]
		if !ok {
			from := len(made)
			made = appendHost(made, host)
			b = made[from:]
		}
		r.add(b)
	}
	h := sha256.New()
	h.Write(r.Content[head:])
	for _, piece := range r.tail.pieces {
		h.Write(piece)
	}
	h.Sum(r.hash[:0])
	r.Version = hex.EncodeToString(r.hash[:8])
	return r
}

// hostsOf returns the virtual hosts of resources with their bytes.
func hostsOf(resources []*Resource) map[*routev3.VirtualHost][]byte {
	known := map[*routev3.VirtualHost][]byte{}
	for _, r := range resources {
		if r.tail != nil {
			for i, host := range r.tail.hosts {
				known[host] = r.tail.bytes[i]
			}
		}
	}
	return known
}

// appendHost encodes a host. The caller must have computed its size before.
func appendHost(b []byte, host *routev3.VirtualHost) []byte {
	options := deterministic
	options.UseCachedSize = true
	b = protowire.AppendVarint(protowire.AppendTag(b, fieldVirtualHosts, protowire.BytesType), uint64(options.Size(host)))
	return mustAppend(options, b, host)
}

// add appends the bytes of a host.
func (r *Resource) add(host []byte) {
	t := r.tail
	t.bytes = append(t.bytes, host)
	n := len(t.pieces)
	if n == 0 && follows(r.Content, host) {
		r.Content = r.Content[:len(r.Content)+len(host)]
		return
	}
	if t.size += len(host); n > 0 && follows(t.pieces[n-1], host) {
		t.pieces[n-1] = t.pieces[n-1][:len(t.pieces[n-1])+len(host)]
		return
	}
	t.pieces = append(t.pieces, host)
}

// follows reports whether b begins in memory where a ends.
func follows(a, b []byte) bool {
	return cap(a) > len(a) && len(b) > 0 && &a[:len(a)+1][len(a)] == &b[0]
}

// encodeWithoutHosts encodes the fields of a route configuration other than its virtual hosts.
func encodeWithoutHosts(m *routev3.RouteConfiguration) []byte {
	rest := &routev3.RouteConfiguration{}
	m.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Number() != fieldVirtualHosts {
			rest.ProtoReflect().Set(field, value)
		}
		return true
	})
	return mustAppend(deterministic, nil, rest)
}
