//go:build registries

package registries

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

var (
	pairs     = flag.Int("pairs", 12, "pairs of faults")
	triples   = flag.Int("triples", 0, "triples of faults, after the pairs")
	pairsSeed = flag.Uint64("pairs-seed", 0, "seed of the pairs; 0 draws one")
	pairsOnly = flag.String("pairs-only", "", "regular expression of the pairs to strike, as FAULT, then FAULT; all if empty")
)

// fault is something that fails, until it is mended.
type fault struct {
	of, name     string // two of one part cannot be at once
	strike, mend func(m *mesh)
	kills        bool // the Envoy that serves: what it had accepted is lost
	starts       bool // an Envoy, which has resolved no name yet
}

var faults = []fault{
	{"discovery", "discovery killed", func(m *mesh) { m.kill() }, (*mesh).discoveryBack, false, false},
	{"discovery", "discovery frozen", func(m *mesh) { m.freeze() }, (*mesh).discoveryBack, false, false},
	{"discovery", "discovery restarted", func(m *mesh) { m.kill(); m.start() }, (*mesh).discoveryBack, false, false},
	{"Consul", "Consul killed", func(m *mesh) { m.registry.kill() }, (*mesh).registryBack, false, false},
	{"Consul", "Consul's data deleted", func(m *mesh) { m.registry.kill(); m.forget(); m.registry.restart() }, (*mesh).registryBack, false, false},
	{"API server", "API server killed", func(m *mesh) { m.cluster.kill() }, (*mesh).clusterBack, false, false},
	{"API server", "API server frozen", func(m *mesh) { m.cluster.Signal(syscall.SIGSTOP) }, (*mesh).clusterBack, false, false},
	{"Envoy", "Envoy killed", func(m *mesh) { m.killEnvoy() }, func(*mesh) {}, true, true},
	{"agent", "agent killed and started", func(m *mesh) { m.restartAgent() }, func(*mesh) {}, true, true},
	{"certificate", "certificate of another authority", func(m *mesh) { m.certificate(m.stranger) }, func(m *mesh) { m.certificate(m.own) }, false, false},
	{"file", "typo in a file", func(m *mesh) { m.write(m.revision, "hots: [") }, func(m *mesh) { m.write(m.revision, "") }, false, false},
	{"DNS", "DNS silent", func(m *mesh) { m.names.silent.Store(true) }, func(m *mesh) { m.names.silent.Store(false) }, false, false},
	{"disk", "disks full", func(m *mesh) { m.fill() }, (*mesh).empty, false, false},
	{"hand-over", "hand-over", func(m *mesh) { m.handOver() }, func(*mesh) {}, false, true},
	{"push", "push of a new listener", func(m *mesh) { m.push() }, func(*mesh) {}, false, false},
	{"sockets", "sockets removed", func(m *mesh) { m.removeSockets() }, func(*mesh) {}, false, false},
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
	var mine [][]fault
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
		if m.together(mine[i%len(mine)], random); t.Failed() {
			return
		}
	}
	for range (*triples + 1 - half) / 2 {
		if m.together(triple(random), random); t.Failed() {
			return
		}
	}
}

// triple draws three faults of different parts.
func triple(random *rand.Rand) (out []fault) {
	for _, i := range random.Perm(len(faults)) {
		if len(out) < 3 && !slices.ContainsFunc(out, func(f fault) bool { return f.of == faults[i].of }) {
			out = append(out, faults[i])
		}
	}
	return out
}

// allPairs returns the pairs of faults that can be at once, in each order, and that -pairs-only names.
func allPairs(t *testing.T) (out [][]fault) {
	t.Helper()
	only, err := regexp.Compile(*pairsOnly)
	if err != nil {
		t.Fatalf("-pairs-only: %v", err)
	}
	for _, a := range faults {
		for _, b := range faults {
			if a.of != b.of && only.MatchString(a.name+", then "+b.name) {
				out = append(out, []fault{a, b})
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("-pairs-only %s: no pair matches", *pairsOnly)
	}
	return out
}

// together strikes faults one after the other, and mends them in any order.
func (m *mesh) together(struck []fault, random *rand.Rand) {
	m.T.Helper()
	var what []string
	for _, f := range struck {
		what = append(what, f.name)
	}
	told := strings.Join(what, ", then ")
	killed := slices.ContainsFunc(struck, func(f fault) bool { return f.kills })
	// Nobody remembers the addresses of names: see docs/reliability.md.
	nameless := slices.ContainsFunc(struck, func(f fault) bool { return f.of == "DNS" }) && slices.ContainsFunc(struck, func(f fault) bool { return f.starts })
	load, names := m.load(m.ofRegistry), m.load(m.ofNames)
	others := []*lab.Load{m.load(m.ofCluster), m.load(m.ofFiles)}
	pause := func() { <-time.After(time.Duration(random.IntN(1500)) * time.Millisecond) }
	began := time.Now()
	for i, f := range struck {
		if i > 0 {
			pause()
		}
		f.strike(m)
	}
	urls := []string{m.ofRegistry, m.ofCluster, m.ofFiles, m.ofNames}
	if nameless {
		urls = urls[:3]
	}
	m.serves(told, urls...)
	within := time.Since(began)
	pause()
	m.closed(told)
	for i, at := range random.Perm(len(struck)) {
		if i > 0 {
			pause()
		}
		struck[at].mend(m)
	}
	m.whole(told)
	n, failures := load.Stop()
	if !nameless {
		others = append(others, names)
	} else if _, failed := names.Stop(); len(failed) > 0 {
		m.T.Logf("%s: %d requests to a name failed until DNS answered", told, len(failed))
	}
	for _, other := range others {
		also, further := other.Stop()
		n, failures = n+also, append(failures, further...)
	}
	if len(failures) > 0 && !killed {
		m.T.Errorf("%s: %d of %d requests failed, such as %q", told, len(failures), n, failures[:min(3, len(failures))])
	}
	m.T.Logf("| %s | %d | %d | %.1f s |", strings.Join(what, " | "), n, len(failures), within.Seconds())
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
