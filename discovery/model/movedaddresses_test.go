package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// The addresses that come and go are those that a comparison of both lists as a whole finds, also where an address is in a list
// twice, or in two spellings, and where one list is the beginning or the end of the other.
func TestMovedAddresses(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 1))
		list := func() (out []Endpoint) {
			for range random.IntN(7) {
				form := []string{"10.0.0.%d", "10.0.0.%d", "::ffff:10.0.0.%d", "host%d.test"}[random.IntN(4)]
				out = append(out, Endpoint{Address: fmt.Sprintf(form, random.IntN(5))})
			}
			return out
		}
		common, was, is, last := list(), list(), list(), list()
		was, is = append(append(common[:len(common):len(common)], was...), last...), append(append(common[:len(common):len(common)], is...), last...)
		gone, come := movedAddresses(was, is)
		before, now := ips(was), ips(is)
		if !maps.Equal(gone, less(before, now)) || !maps.Equal(come, less(now, before)) {
			t.Fatalf("seed %d: %v to %v: gone are %v, come %v", seed, was, is, gone, come)
		}
	}
}

func less(all, others map[netip.Addr]bool) map[netip.Addr]bool {
	out := maps.Clone(all)
	for ip := range others {
		delete(out, ip)
	}
	return out
}
