package content

import (
	"crypto/sha256"
	"encoding/hex"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

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
