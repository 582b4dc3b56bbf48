package xds

import (
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
)

// uniqueChains removes from each chain the matches of earlier chains: Envoy rejects a listener in which two chains
// match the same destination, source and server name.
func uniqueChains(chains []*listenerv3.FilterChain) []*listenerv3.FilterChain {
	taken := claims{}
	var out []*listenerv3.FilterChain
	for _, c := range chains {
		out = append(out, taken.claim(c)...)
	}
	return out
}

// claims holds the matches that chains already use.
type claims map[claimed]bool

// claimed is one of the matches of a chain. Empty fields match everything.
type claimed struct {
	transport, destination, source, name string
	port                                 uint32
}

// claim returns the chain, split into parts if some of its matches are already used. The destinations that are free for all of its sources
// and names stay together in one part: a chain may have thousands.
func (taken claims) claim(c *listenerv3.FilterChain) []*listenerv3.FilterChain {
	m := c.GetFilterChainMatch()
	var parts []*listenerv3.FilterChainMatch
	var free []*corev3.CidrRange
	for _, destination := range orAny(m.GetPrefixRanges()) {
		var here []*listenerv3.FilterChainMatch
		whole := true
		for _, source := range orAny(m.GetSourcePrefixRanges()) {
			names := taken.names(m, destination, source)
			whole = whole && len(names) == len(orAny(m.GetServerNames()))
			if len(names) == 0 {
				continue
			}
			if len(m.GetServerNames()) == 0 {
				names = nil
			}
			here = append(here, &listenerv3.FilterChainMatch{PrefixRanges: only(destination), SourcePrefixRanges: only(source), ServerNames: names})
		}
		if whole {
			free = append(free, destination)
		} else {
			parts = append(parts, here...)
		}
	}
	if len(free) == len(orAny(m.GetPrefixRanges())) {
		return []*listenerv3.FilterChain{c}
	}
	if len(free) > 0 {
		parts = append(parts, &listenerv3.FilterChainMatch{PrefixRanges: free, SourcePrefixRanges: m.GetSourcePrefixRanges(), ServerNames: m.GetServerNames()})
	}
	return split(c, parts)
}

// split returns the chain once for each of the parts, which replace its own destinations, sources and names.
func split(c *listenerv3.FilterChain, parts []*listenerv3.FilterChainMatch) []*listenerv3.FilterChain {
	set := func(c *listenerv3.FilterChain, part *listenerv3.FilterChainMatch) {
		if m := c.FilterChainMatch; m != nil {
			m.PrefixRanges, m.SourcePrefixRanges, m.ServerNames = part.GetPrefixRanges(), part.GetSourcePrefixRanges(), part.GetServerNames()
		}
	}
	bare := proto.CloneOf(c)
	set(bare, nil)
	out := make([]*listenerv3.FilterChain, 0, len(parts))
	for _, part := range parts {
		one := proto.CloneOf(bare)
		set(one, part)
		out = append(out, one)
	}
	return out
}

// names claims the server names that are still free for a destination and a source, and returns them.
func (taken claims) names(m *listenerv3.FilterChainMatch, destination, source *corev3.CidrRange) (free []string) {
	for _, name := range orAny(m.GetServerNames()) {
		key := claimed{m.GetTransportProtocol(), textOf(destination), textOf(source), name, m.GetDestinationPort().GetValue()}
		if !taken[key] {
			taken[key] = true
			free = append(free, name)
		}
	}
	return free
}

// textOf is a range as text, and empty for none.
func textOf(r *corev3.CidrRange) string {
	if r == nil {
		return ""
	}
	return r.GetAddressPrefix() + "/" + strconv.FormatUint(uint64(r.GetPrefixLen().GetValue()), 10)
}

// orAny returns list, or one zero value, which matches everything, if it is empty.
func orAny[T any](list []T) []T {
	if len(list) == 0 {
		return make([]T, 1)
	}
	return list
}

func only(r *corev3.CidrRange) []*corev3.CidrRange {
	if r == nil {
		return nil
	}
	return []*corev3.CidrRange{r}
}
