package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// An Envoy that applies a large push answers nothing for seconds. It serves meanwhile, so it stays ready, and is not killed.
func TestReadyWhileEnvoyAppliesAPush(t *testing.T) {
	t.Parallel()
	p := startPupil(t, startScript(t))
	p.clusters(p.good)
	p.listeners(tcpListener("l", p.inbound[0], "good"))
	p.await("healthy", healthy)
	load := lab.StartSlowLoad(p.inbound[0], "http://"+p.inbound[0]+"/", 2, 2, 20*time.Millisecond)
	clusters := []string{p.good}
	for i := range 12_000 {
		clusters = append(clusters, staticCluster(fmt.Sprint("c", i), p.upside))
	}
	before, err := p.Envoy()
	p.must(err)
	accepted := func(r told) string { // how many responses of CDS
		i := slices.IndexFunc(r.Conditions, func(c condition) bool { return c.Type == "CDSReceived" })
		count, _, _ := strings.Cut(r.Conditions[i].Reason, " ")
		return count
	}
	r, err := readiness(p.status)
	p.must(err)
	first := accepted(r)
	p.clusters(clusters...)
	p.must(lab.Eventually(3*time.Minute, func() error {
		r, err := readiness(p.status)
		if err == nil && r.code != 200 {
			t.Fatalf("it is unready: %s", r.missing())
		}
		if err == nil && accepted(r) == first {
			err = fmt.Errorf("the clusters have not been accepted: %+v", r.Conditions)
		}
		return err
	}))
	lab.Unharmed(t, load)
	if after, err := p.Envoy(); err != nil || after != before {
		t.Errorf("Envoy %d serves, want still %d, %v", after, before, err)
	}
}
