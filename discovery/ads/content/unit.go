package content

import (
	"crypto/sha256"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Unit is the smallest part to which a refusal is traced: a virtual host of a route configuration, else a whole
// resource. With another content it is another unit.
type Unit struct {
	Resource string
	Host     string // "" for the whole resource
	hash     digest
}

// Unit is the whole resource.
func (r *Resource) Unit() Unit { return Unit{Resource: r.Name, hash: r.hash} }

// divided is a route configuration split into its virtual hosts and the bytes around them.
type divided struct {
	typeURL []byte    // of the Any, as a field
	base    [2][]byte // the message before and after them
	Hosts   []HostUnit
	byHost  map[string]int
}

// HostUnit is a virtual host, or a whole resource, with its bytes.
type HostUnit struct {
	Unit
	Body []byte // of the virtual host
}

// Has reports whether a unit is one of the hosts, with this content.
func (d *divided) Has(u Unit) bool {
	if d == nil {
		return false
	}
	at, ok := d.byHost[u.Host]
	return ok && d.Hosts[at].hash == u.hash
}

// Body returns the host of that name, nil where there is none.
func (d *divided) Body(host string) []byte {
	if d == nil {
		return nil
	}
	if at, ok := d.byHost[host]; ok {
		return d.Hosts[at].Body
	}
	return nil
}

// divider divides route configurations, each once.
type divider struct {
	divided memo[*Resource, *divided]
}

// Divide returns the virtual hosts of a route configuration, nil for any other resource.
func (ds *divider) Divide(k Kind, r *Resource) *divided {
	if k != RDS || r == nil || !r.Exists() {
		return nil
	}
	return ds.divided.getFor(1+r.size()>>10, r, func() *divided {
		if d := divide(r); d != nil && len(d.Hosts) > 0 {
			return d
		}
		return nil
	})
}

// divide reads a route configuration without decoding it; nil if r is none.
func divide(r *Resource) *divided {
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
	d := &divided{typeURL: content[:n], byHost: map[string]int{}}
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
		d.Hosts = append(d.Hosts, HostUnit{Unit{r.Name, name, sha256.Sum256(body)}, body})
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
