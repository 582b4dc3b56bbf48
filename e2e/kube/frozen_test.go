//go:build kube

package kube

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A leader that is stopped for longer than its lease, with a queue of writes, writes nothing when it goes on: another replica
// leads. Without the comparison of clocks before each write it wrote on for up to nine seconds.
func TestFrozenLeader(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	hand := c.hand()
	hand.apply(rights)
	hand.apply(leases("default"))
	hand.apply(statusRights)
	hand.apply(istioDefinitions(t))
	const many = 400 // some 40 s of writes, which are queued when the leader begins
	for i := range many {
		hand.apply(rule(fmt.Sprintf("many-%d", i), "echo_", "x"))
	}
	doors := []*door{startDoor(t, c, c.config("discovery")), startDoor(t, c, c.config("discovery"))}
	writes := func(d *door) int { return d.count("list status") + d.count("list events") } // nothing else has these paths
	a := writerAt(t, doors[0].kubeconfig())
	logged(t, a, "msg=leading")
	b := writerAt(t, doors[1].kubeconfig())
	logged(t, b, "another replica leads")

	check(t, lab.Eventually(time.Minute, func() error {
		if writes(doors[0]) == 0 {
			return errors.New("the leader has written nothing yet")
		}
		return nil
	}))
	a.Signal(syscall.SIGSTOP)
	frozen := time.Now()
	t.Cleanup(func() { a.Signal(syscall.SIGCONT) })
	before := writes(doors[0])
	logged(t, b, "msg=leading")
	t.Logf("a has written %d times; b leads %s after a was frozen", before, time.Since(frozen).Round(time.Second))
	if before > 2*many-100 {
		t.Fatalf("a has written %d times, so its queue is nearly empty", before)
	}
	doors[0].forget()
	a.Signal(syscall.SIGCONT)
	logged(t, a, "no longer leading")
	logged(t, a, "another replica leads")
	for i := range many {
		hand.says(fmt.Sprintf("many-%d", i), "False Refused 1")
	}
	if n := writes(doors[0]); n > 1 { // one may have been half sent, and conflicts
		t.Errorf("a wrote %d times after b began to lead", n)
	}
	if n := writes(doors[1]); n < 100 {
		t.Errorf("b wrote %d times only", n)
	}
}
