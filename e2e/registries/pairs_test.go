//go:build registries

package registries

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

var (
	pairs     = flag.Int("pairs", 12, "pairs of faults")
	pairsSeed = flag.Uint64("pairs-seed", 0, "seed of the pairs; 0 draws one")
	pairsOnly = flag.String("pairs-only", "", "regular expression of the pairs to strike, as FAULT, then FAULT; all if empty")
)

// fault is something that fails, until it is mended.
type fault struct {
	of, name     string // two of one part cannot be at once
	strike, mend func(m *mesh)
	kills        bool // the Envoy that serves: what it had accepted is lost
}

var faults = []fault{
	{"discovery", "discovery killed", func(m *mesh) { m.kill() }, (*mesh).discoveryBack, false},
	{"discovery", "discovery frozen", func(m *mesh) { m.freeze() }, (*mesh).discoveryBack, false},
	{"discovery", "discovery restarted", func(m *mesh) { m.kill(); m.start() }, (*mesh).discoveryBack, false},
	{"Consul", "Consul killed", func(m *mesh) { m.registry.kill() }, (*mesh).registryBack, false},
	{"Consul", "Consul's data deleted", func(m *mesh) { m.registry.kill(); m.forget(); m.registry.restart() }, (*mesh).registryBack, false},
	{"API server", "API server killed", func(m *mesh) { m.cluster.kill() }, (*mesh).clusterBack, false},
	{"API server", "API server frozen", func(m *mesh) { m.cluster.Signal(syscall.SIGSTOP) }, (*mesh).clusterBack, false},
	{"Envoy", "Envoy killed", func(m *mesh) { m.killEnvoy() }, func(*mesh) {}, true},
	{"agent", "agent killed and started", func(m *mesh) { m.restartAgent() }, func(*mesh) {}, true},
	{"certificate", "certificate of another authority", func(m *mesh) { m.certificate(m.stranger) }, func(m *mesh) { m.certificate(m.own) }, false},
	{"file", "typo in a file", func(m *mesh) { m.write(m.revision, "hots: [") }, func(m *mesh) { m.write(m.revision, "") }, false},
	{"DNS", "DNS silent", func(m *mesh) { m.names.silent.Store(true) }, func(m *mesh) { m.names.silent.Store(false) }, false},
	{"disk", "disks full", func(m *mesh) { m.fill() }, (*mesh).empty, false},
}

// Two faults at once, one after the other, in each order: every route of before serves while both last, nothing answers that was
// refused, and requests fail only where the Envoy that had accepted them was killed. Once both are mended, changes arrive.
//
// Two meshes have half of the pairs each, since most of the time passes in waiting.
func TestPairsOfFaults(t *testing.T) {
	for half, name := range []string{"one", "other"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab.InPodNetwork(t, func(t *testing.T) { strike(t, half) })
		})
	}
}

// strike strikes one half of the pairs, in an order that the seed draws.
func strike(t *testing.T, half int) {
	seed := *pairsSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-pairs-seed %d", seed)
	random := rand.New(rand.NewPCG(seed, uint64(half)))
	var mine [][2]fault
	for i, pair := range allPairs(t) {
		if i%2 == half {
			mine = append(mine, pair)
		}
	}
	if len(mine) == 0 {
		return // -pairs-only names one
	}
	random.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
	m := newMesh(t)
	for i := range (*pairs + 1 - half) / 2 {
		if m.pair(mine[i%len(mine)], random); t.Failed() {
			return
		}
	}
}

// allPairs returns the pairs of faults that can be at once, in each order, and that -pairs-only names.
func allPairs(t *testing.T) (out [][2]fault) {
	t.Helper()
	only, err := regexp.Compile(*pairsOnly)
	if err != nil {
		t.Fatalf("-pairs-only: %v", err)
	}
	for _, a := range faults {
		for _, b := range faults {
			if a.of != b.of && only.MatchString(a.name+", then "+b.name) {
				out = append(out, [2]fault{a, b})
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("-pairs-only %s: no pair matches", *pairsOnly)
	}
	return out
}

// pair strikes two faults, and mends them in either order.
func (m *mesh) pair(pair [2]fault, random *rand.Rand) {
	m.T.Helper()
	what := pair[0].name + ", then " + pair[1].name
	load := m.load(m.ofRegistry)
	others := []*lab.Load{m.load(m.ofCluster), m.load(m.ofFiles), m.load(m.ofNames)}
	pause := func() { <-time.After(time.Duration(random.IntN(1500)) * time.Millisecond) }
	struck := time.Now()
	pair[0].strike(m)
	pause()
	pair[1].strike(m)
	urls := []string{m.ofRegistry, m.ofCluster, m.ofFiles, m.ofNames}
	if m.names.silent.Load() && (pair[0].kills || pair[1].kills) {
		urls = urls[:3] // nobody remembers addresses of names: see docs/reliability.md
	}
	m.serves(what, urls...)
	within := time.Since(struck)
	pause()
	m.closed(what)
	first := random.IntN(2)
	pair[first].mend(m)
	pause()
	pair[1-first].mend(m)
	m.whole(what)
	n, failures := load.Stop()
	for _, other := range others {
		also, further := other.Stop()
		n, failures = n+also, append(failures, further...)
	}
	if len(failures) > 0 && !pair[0].kills && !pair[1].kills {
		m.T.Errorf("%s: %d of %d requests failed, such as %q", what, len(failures), n, failures[:min(3, len(failures))])
	}
	m.T.Logf("| %s | %s | %d | %d | %.1f s |", pair[0].name, pair[1].name, n, len(failures), within.Seconds())
}

// serves waits until every route answers, whatever is broken.
func (m *mesh) serves(what string, urls ...string) {
	m.T.Helper()
	m.Check(lab.Eventually(30*time.Second, func() error {
		for _, url := range urls {
			for range 5 {
				if _, err := lab.GetThrough(m.proxy, url); err != nil {
					return fmt.Errorf("%s: %s: %w", what, url, err)
				}
			}
		}
		return nil
	}))
}

// closed fails the test if a destination answers that the mesh does not have.
func (m *mesh) closed(what string) {
	m.T.Helper()
	if body, err := lab.GetThrough(m.proxy, m.refused); err == nil {
		m.T.Errorf("%s: %s answers %q, want it refused", what, m.refused, body)
	}
}
