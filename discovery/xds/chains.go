package xds

import (
	"fmt"

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

// claims holds the matches that chains already use, each as a destination, source and server name.
type claims map[string]bool

// claim returns the chain, split into parts if some of its matches are already used.
func (taken claims) claim(c *listenerv3.FilterChain) []*listenerv3.FilterChain {
	m := c.GetFilterChainMatch()
	var parts []*listenerv3.FilterChain
	whole := true
	for _, destination := range orAny(m.GetPrefixRanges()) {
		for _, source := range orAny(m.GetSourcePrefixRanges()) {
			names := taken.names(m, destination, source)
			whole = whole && len(names) == len(orAny(m.GetServerNames()))
			if len(names) == 0 {
				continue
			}
			part := proto.CloneOf(c)
			if m != nil {
				part.FilterChainMatch.PrefixRanges = only(destination)
				part.FilterChainMatch.SourcePrefixRanges = only(source)
				part.FilterChainMatch.ServerNames = names
				if len(m.ServerNames) == 0 {
					part.FilterChainMatch.ServerNames = nil
				}
			}
			parts = append(parts, part)
		}
	}
	if whole {
		return []*listenerv3.FilterChain{c}
	}
	return parts
}

// names claims the server names that are still free for a destination and a source, and returns them.
func (taken claims) names(m *listenerv3.FilterChainMatch, destination, source *corev3.CidrRange) (free []string) {
	for _, name := range orAny(m.GetServerNames()) {
		key := fmt.Sprint(m.GetTransportProtocol(), m.GetDestinationPort().GetValue(), " ", destination, " ", source,
			" ", name)
		if !taken[key] {
			taken[key] = true
			free = append(free, name)
		}
	}
	return free
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
