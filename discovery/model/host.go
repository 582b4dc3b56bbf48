package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ServerName returns the name (SNI) of a port and subset of a host that a client can send in a TLS handshake.
func ServerName(port uint32, subset, host string) string {
	return fmt.Sprintf("outbound_.%d_.%s_.%s", port, subset, host)
}

// IsWildcard reports whether a host is a wildcard.
func IsWildcard(host string) bool { return strings.HasPrefix(host, "*") }

// HostMatches reports whether pattern matches host, which may be a wildcard itself.
func HostMatches(pattern, host string) bool {
	suffix, wildcard := strings.CutPrefix(pattern, "*")
	return pattern == host || wildcard && strings.HasSuffix(strings.TrimPrefix(host, "*"), suffix)
}

// byHost holds values by host; some hosts are wildcards.
type byHost[T any] struct {
	values    map[string]T
	wildcards []string // narrowest first
}

func (b *byHost[T]) set(host string, value T) {
	if b.values == nil {
		b.values = map[string]T{}
	}
	if _, known := b.values[host]; !known && IsWildcard(host) {
		at, _ := slices.BinarySearchFunc(b.wildcards, host, func(a, b string) int {
			return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
		})
		b.wildcards = slices.Insert(b.wildcards, at, host)
	}
	b.values[host] = value
}

// matching yields the value of host and then those of the wildcards that match it, narrowest first.
func (b *byHost[T]) matching(host string) func(yield func(string, T) bool) {
	return func(yield func(string, T) bool) {
		if v, ok := b.values[host]; ok && !yield(host, v) {
			return
		}
		for _, wildcard := range b.wildcards {
			if wildcard != host && HostMatches(wildcard, host) && !yield(wildcard, b.values[wildcard]) {
				return
			}
		}
	}
}
