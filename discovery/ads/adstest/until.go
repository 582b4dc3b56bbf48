package adstest

import (
	"testing"
	"time"
)

// Deadline is how long a test waits at most: no condition takes as long on any machine.
const Deadline = 30 * time.Second

// Until waits until condition returns true.
func Until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	end := time.After(Deadline)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited %s for %s", Deadline, what)
		}
	}
}
