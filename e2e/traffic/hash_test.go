package traffic

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// ring is Envoy's: each endpoint has ceil(size/n) places, at the hashes of its address with a number behind it, and a key
// belongs to the first place at or after its own hash.
type ring []place

type place struct {
	hash  uint64
	owner string
}

func placesOf(size, endpoints int) int { return int(math.Ceil(float64(size) / float64(endpoints))) }

func newRing(size int, backends []*lab.Backend) (r ring) {
	for _, b := range backends {
		for i := range placesOf(size, len(backends)) {
			r = append(r, place{xxhash.Sum64String(fmt.Sprintf("%s:%d_%d", b.IP, b.Port, i)), b.Name})
		}
	}
	slices.SortFunc(r, func(a, b place) int { return cmp.Compare(a.hash, b.hash) })
	return r
}

func (r ring) owner(key string) string {
	hash := xxhash.Sum64String(key)
	i := slices.IndexFunc(r, func(p place) bool { return p.hash >= hash })
	return r[max(i, 0)].owner
}

// One key always gets the same endpoint, the one that the ring says. Taking one of five endpoints away moves its keys and
// no others as long as those who stay keep their places: ceil(16/5) is ceil(16/4). The default of 1024 gives each of
// the four 51 places more, with which they take keys from one another: of the keys that were not the gone one's a place
// is the nearest with 204/1229, and another's with three of four, so that one of eight moves.
func TestConsistentHashing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		setting string
		size    int
		moves   bool // keys of those who stay
	}{
		"the default ring":                     {"", 1024, true},
		"a ring in which endpoints keep their": {", ringHash: {minimumRingSize: 16}", 16, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var all []*lab.Backend
			for i := range 5 {
				all = append(all, w.Backend(fmt.Sprintf("b%d", i)))
			}
			w.Service("app.test", all...)
			w.Apply("DestinationRule app",
				"host: app.test\ntrafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: x-user"+test.setting+"}}}")
			p := w.SidecarEnvoy("client", "")
			turned := func(endpoints int) { // waits for the ring of so many
				t.Helper()
				w.Check(lab.Eventually(lab.StopLimit, func() error {
					want := int64(endpoints * placesOf(test.size, endpoints))
					if n := p.Stat(`^cluster\.outbound\|80\|\|app\.test\.ring_hash_lb\.size$`); n != want {
						return fmt.Errorf("Envoy's ring has %d places, want %d", n, want)
					}
					return nil
				}))
			}
			turned(5)
			const keys = 150
			owners := func(now []*lab.Backend) (out []string) {
				t.Helper()
				ring := newRing(test.size, now)
				for key := range keys {
					a, err := p.Get("http://app.test/", "x-user", fmt.Sprint(key))
					w.Check(err)
					if want := ring.owner(fmt.Sprint(key)); a.Echo.Backend != want {
						t.Errorf("key %d of %d endpoints: %s, want %s, as the ring says", key, len(now), a.Echo.Backend, want)
					}
					out = append(out, a.Echo.Backend)
				}
				return out
			}
			before := owners(all)
			if again := owners(all); !slices.Equal(before, again) {
				t.Errorf("keys moved without a reason:\n%v\n%v", before, again)
			}
			w.replay(p)
			w.Service("app.test", all[1:]...)
			turned(4)
			moved := 0
			for key, owner := range owners(all[1:]) {
				if before[key] != "b0" && owner != before[key] {
					moved++
				}
			}
			t.Logf("%d of the others' keys moved", moved)
			if moved > 0 && !test.moves {
				t.Errorf("%d keys of the other endpoints moved", moved)
			}
		})
	}
}
