package discovery

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// The keys of groups are in order after any changes, and those that are gone take no room for long.
func TestKeysAreOrdered(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		c := newCache()
		for step := range 2000 {
			key := fmt.Sprint(random.IntN(40))
			switch random.IntN(3) {
			case 0:
				c.drop(key)
			default:
				c.take(key, model.Group{Services: []*model.Service{{Right: model.RightFull, Host: fmt.Sprint(step)}}})
			}
			if len(c.added) > 40+64 {
				t.Fatalf("%d keys are kept for %d groups", len(c.added), len(c.groups))
			}
			if random.IntN(int(10*seed+1)) == 0 {
				if got, want := c.ordered(), slices.Sorted(maps.Keys(c.groups)); !slices.Equal(got, want) {
					t.Fatalf("seed %d, step %d: keys are %v, want %v", seed, step, got, want)
				}
			}
		}
	}
}
