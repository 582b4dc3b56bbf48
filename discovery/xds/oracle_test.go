package xds

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// oracle finds the faults that Envoy would find, in a thousandth of its time: violated constraints of fields in Envoy's
// protobufs, and of combinations of fields in its code. TestEnvoyTakesWhatValidationTakes finds the faults that the
// oracle misses.
type oracle struct {
	faults []string
	routes map[string]bool // that are in the resources
	path   string
}

func (o *oracle) add(format string, args ...any) {
	o.faults = append(o.faults, o.path+": "+fmt.Sprintf(format, args...))
}

func faultsOf(r *Resources) []string {
	o := &oracle{routes: map[string]bool{}}
	for _, c := range r.Routes {
		o.routes[c.Name] = true
	}
	each(o, r.Clusters)
	each(o, r.Endpoints)
	each(o, r.Listeners)
	each(o, r.Routes)
	addresses := map[string]string{}
	for _, l := range r.Listeners {
		address := l.GetAddress().String()
		if other, taken := addresses[address]; taken {
			o.path = l.Name
			o.add("has the address of %s", other)
		}
		addresses[address] = l.Name
	}
	return o.faults
}

func each[T interface {
	comparable
	proto.Message
}](o *oracle, list []T,
) {
	names := map[string]bool{}
	for _, m := range list {
		fields := m.ProtoReflect()
		name := fields.Get(fields.Descriptor().Fields().ByNumber(1)).String()
		o.path = string(fields.Descriptor().Name()) + " " + name
		if names[name] {
			o.add("is there twice")
		}
		names[name] = true
		o.constraints(m)
		o.walk(fields)
	}
}

// constraints checks the constraints of Envoy's protobufs, with the validators of their Go types.
func (o *oracle) constraints(m proto.Message) {
	if v, ok := m.(interface{ ValidateAll() error }); ok {
		if err := v.ValidateAll(); err != nil {
			o.add("%v", err)
		}
	}
}

func (o *oracle) walk(m protoreflect.Message) {
	o.message(m.Interface())
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap() && fd.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { o.walk(v.Message()); return true })
		case fd.Message() == nil || fd.IsMap():
		case fd.IsList():
			for i := range v.List().Len() {
				o.walk(v.List().Get(i).Message())
			}
		default:
			o.walk(v.Message())
		}
		return true
	})
}

// message checks rules that field constraints cannot express.
func (o *oracle) message(m proto.Message) {
	switch m := m.(type) {
	case *anypb.Any:
		inner, err := m.UnmarshalNew()
		if err != nil {
			o.add("%v", err)
			return
		}
		o.constraints(inner)
		o.walk(inner.ProtoReflect())
	case *corev3.SocketAddress:
		if _, err := netip.ParseAddr(m.Address); err != nil && !strings.Contains(o.path, "Cluster ") {
			o.add("address %q", m.Address)
		}
	case *matcherv3.RegexMatcher:
		if _, err := regexp.Compile(m.Regex); err != nil {
			o.add("%v", err)
		}
	case *hcmv3.Rds:
		if !o.routes[m.RouteConfigName] {
			o.add("nobody serves route %s", m.RouteConfigName)
		}
	case *routev3.RouteConfiguration:
		o.virtualHosts(m)
	case *routev3.WeightedCluster:
		var sum uint64
		for _, c := range m.Clusters {
			sum += uint64(c.Weight.GetValue())
		}
		if sum == 0 || sum > 1<<32-1 {
			o.add("weights add up to %d", sum)
		}
	case *listenerv3.Listener:
		o.chains(m)
	}
}

func (o *oracle) virtualHosts(c *routev3.RouteConfiguration) {
	names, domains := map[string]bool{}, map[string]bool{}
	for _, h := range c.VirtualHosts {
		if names[h.Name] {
			o.add("virtual host %s is there twice", h.Name)
		}
		names[h.Name] = true
		for _, d := range h.Domains {
			if domains[strings.ToLower(d)] {
				o.add("domain %s is there twice", d)
			}
			domains[strings.ToLower(d)] = true
		}
	}
}

func (o *oracle) chains(l *listenerv3.Listener) {
	matches := map[string]bool{}
	for _, c := range l.FilterChains {
		m := proto.CloneOf(c.GetFilterChainMatch())
		if m == nil {
			m = &listenerv3.FilterChainMatch{}
		}
		names, to, from := orAny(m.ServerNames), orAny(m.PrefixRanges), orAny(m.SourcePrefixRanges)
		for i := range len(names) * len(to) * len(from) {
			m.ServerNames = names[i%len(names) : i%len(names)+1]
			m.PrefixRanges = only(to[i/len(names)%len(to)])
			m.SourcePrefixRanges = only(from[i/len(names)/len(to)])
			if text := m.String(); matches[text] {
				o.add("two chains match %s", text)
			} else {
				matches[text] = true
			}
		}
	}
}
