package content

import (
	"crypto/sha256"
	"encoding/hex"
	"runtime"
	"sync"
	"weak"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// ResourceID identifies the smallest part to which a refusal is traced: a virtual host of a route configuration, else a
// whole resource. With another content it is another one.
type ResourceID struct {
	Resource string
	Host     string // "" for the whole resource
	hash     digest
}

// ID is the whole resource.
func (r *Resource) ID() ResourceID { return ResourceID{Resource: r.Name, hash: r.hash} }

// virtualHosts is a route configuration split into its virtual hosts and the bytes around them.
type virtualHosts struct {
	typeURL []byte    // of the Any, as a field
	base    [2][]byte // the message before and after them
	Hosts   []Body
	byHost  map[string]int
}

// Body is a virtual host, or a whole resource, with its bytes.
type Body struct {
	ResourceID
	Bytes []byte // of the virtual host
}

// Has reports whether an ID is that of one of the hosts, with this content.
func (d *virtualHosts) Has(u ResourceID) bool {
	if d == nil {
		return false
	}
	at, ok := d.byHost[u.Host]
	return ok && d.Hosts[at].hash == u.hash
}

// Find returns the host of that name, nil where there is none.
func (d *virtualHosts) Find(host string) []byte {
	if d == nil {
		return nil
	}
	if at, ok := d.byHost[host]; ok {
		return d.Hosts[at].Bytes
	}
	return nil
}

// hostDivider divides route configurations, each once.
type hostDivider struct {
	hosts memo[*Resource, *virtualHosts]
}

// VirtualHosts returns the virtual hosts of a route configuration, nil for any other resource.
func (ds *hostDivider) VirtualHosts(k Kind, r *Resource) *virtualHosts {
	if k != RDS || r == nil || !r.Exists() {
		return nil
	}
	return ds.hosts.getFor(1+r.size()>>10, r, func() *virtualHosts {
		if d := virtualHostsOf(r); d != nil && len(d.Hosts) > 0 {
			return d
		}
		return nil
	})
}

// virtualHostsOf reads a route configuration without decoding it; nil if r is none.
func virtualHostsOf(r *Resource) *virtualHosts {
	content := r.Whole()
	_, _, n := protowire.ConsumeField(content)
	if n < 0 {
		return nil
	}
	_, _, tag := protowire.ConsumeTag(content[n:])
	if tag < 0 {
		return nil
	}
	value, m := protowire.ConsumeBytes(content[n+tag:])
	if m < 0 {
		return nil
	}
	d := &virtualHosts{typeURL: content[:n], byHost: map[string]int{}}
	for len(value) > 0 {
		number, kind, size := protowire.ConsumeField(value)
		if size < 0 {
			return nil
		}
		if number != fieldVirtualHosts || kind != protowire.BytesType {
			at := min(len(d.Hosts), 1)
			d.base[at], value = append(d.base[at], value[:size]...), value[size:]
			continue
		}
		_, _, tag := protowire.ConsumeTag(value)
		body, _ := protowire.ConsumeBytes(value[tag:])
		name := string(fieldsOf(body, fieldHostName))
		d.byHost[name] = len(d.Hosts)
		d.Hosts = append(d.Hosts, Body{ResourceID{r.Name, name, sha256.Sum256(body)}, body})
		value = value[size:]
	}
	return d
}

// StandIn is a virtual host for the same domains that answers 503: without one, their requests would be routed like
// those to unknown hosts.
func StandIn(body []byte) []byte {
	var host routev3.VirtualHost
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, &host); err != nil {
		return nil
	}
	out, err := proto.MarshalOptions{Deterministic: true}.Marshal(&routev3.VirtualHost{
		Name: host.Name, Domains: host.Domains, Routes: []*routev3.Route{{
			Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 503}},
		}},
	})
	if err != nil {
		return nil
	}
	return out
}

// rewrites holds resources that were changed for clients that refuse a part of them, as long as a reference to them
// exists.
type rewrites struct {
	mu   sync.Mutex
	live map[rewriteKey]weak.Pointer[Resource]
	size int
}

type rewriteKey struct {
	of   *Resource
	with digest // of the bodies of its virtual hosts
}

// maxRewrites bounds the bytes of all of them: otherwise clients that each refuse a different part could fill the
// memory.
const maxRewrites = 64 << 20

// of returns r with these virtual hosts; nil if there are too many of them.
func (f *rewrites) of(r *Resource, d *virtualHosts, bodies [][]byte) *Resource {
	h := sha256.New()
	size := len(d.base[0]) + len(d.base[1])
	for _, body := range bodies {
		sum := sha256.Sum256(body)
		h.Write(sum[:])
		size += len(body) + 8
	}
	key := rewriteKey{r, digest(h.Sum(nil))}
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.live[key].Value(); known != nil {
		return known
	}
	if f.size+size > maxRewrites {
		return nil
	}
	value := make([]byte, 0, size)
	value = append(value, d.base[0]...)
	for _, body := range bodies {
		value = protowire.AppendBytes(protowire.AppendTag(value, fieldVirtualHosts, protowire.BytesType), body)
	}
	value = append(value, d.base[1]...)
	content := append(make([]byte, 0, len(d.typeURL)+len(value)+8), d.typeURL...)
	content = protowire.AppendBytes(protowire.AppendTag(content, 2, protowire.BytesType), value)
	made := &Resource{Name: r.Name, Content: content, hash: sha256.Sum256(value)}
	made.Version = hex.EncodeToString(made.hash[:8])
	if f.live == nil {
		f.live = map[rewriteKey]weak.Pointer[Resource]{}
	}
	f.live[key] = weak.Make(made)
	f.size += len(content)
	size = len(content)
	runtime.AddCleanup(made, func(key rewriteKey) { f.forget(key, size) }, key)
	return made
}

func (f *rewrites) forget(key rewriteKey, size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.size -= size
	if f.live[key].Value() == nil {
		delete(f.live, key)
	}
}
