package lab

import (
	"os"
	"testing"
	"time"
)

type counting struct {
	testing.TB
	errors int
}

func (c *counting) Helper()               {}
func (c *counting) Errorf(string, ...any) { c.errors++ }

// A limit is not met by what takes longer, and met where all of it was waiting.
func TestStopwatch(t *testing.T) {
	if _, err := os.Stat("/proc/pressure/cpu"); err == nil && waited() == 0 {
		t.Error("the kernel's count is not understood")
	}
	before := waited()
	for name, test := range map[string]struct {
		watch Stopwatch
		want  int
	}{
		"too late":        {Stopwatch{time.Now().Add(-time.Hour), before}, 1},
		"in time":         {Stopwatch{time.Now().Add(-10 * time.Second), before}, 0},
		"late by waiting": {Stopwatch{time.Now().Add(-time.Hour), before - time.Hour}, 0},
	} {
		seen := &counting{TB: t}
		test.watch.Within(seen, time.Minute, name)
		if seen.errors != test.want {
			t.Errorf("%s: %d failures, want %d", name, seen.errors, test.want)
		}
	}
}
