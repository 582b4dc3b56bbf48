package heap

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

const mebibyte = 1 << 20

// The heap is collected at the size that this package computes, through the runtime's rule for GOGC.
func TestGoal(t *testing.T) {
	for _, c := range []struct {
		name        string
		outset      uint64 // MiB, 0 after the first collection
		live, roots uint64 // MiB
		want        int
		goal        uint64 // MiB, by the runtime's rule
	}{
		{name: "nothing lives", want: 2400, goal: 96},
		{name: "a server that starts", outset: 128, live: 2, roots: 1, want: 3150, goal: 126},
		{name: "a tiny heap counts as 4 MiB", live: 1, want: 2375, goal: 95},
		{name: "a mesh without proxies", live: 12, want: 700, goal: 96},
		{name: "stacks count as what lives does", live: 12, roots: 9, want: 400, goal: 96},
		{name: "a thousand proxies", live: 40, roots: 6, want: 121, goal: 95},
		{name: "twice what lives is as far", live: 48, want: 100, goal: 96},
		{name: "past that there is room for less than what lives", live: 60, roots: 10, want: 76, goal: 113},
		{name: "four times what lives there leaves twice the room", live: 192, want: 50, goal: 288},
		{name: "as little room as there is", live: 768, want: 25, goal: 960},
		{name: "a large mesh has a quarter", live: 4096, roots: 100, want: 25, goal: 5145},
	} {
		t.Run(c.name, func(t *testing.T) {
			live, roots := c.live*mebibyte, c.roots*mebibyte
			got := percent(cmp.Or(c.outset*mebibyte, size(live)), live, roots)
			if got != c.want {
				t.Errorf("GOGC is %d, want %d", got, c.want)
			}
			goal := max(c.live+(c.live+c.roots)*uint64(got)/100, 4*uint64(got)/100)
			if goal != c.goal {
				t.Errorf("collected at %d MiB, want %d", goal, c.goal)
			}
		})
	}
}

// TestPaceFollowsTheHeap: the runtime's GOGC changes with the live heap, and has its first value again at the end.
func TestPaceFollowsTheHeap(t *testing.T) {
	before := gogc()
	stop := Pace(func(string) string { return "" })
	atFirst := gogc()
	becomes(t, "after the first collection", func(percent uint64) bool { return percent < atFirst })
	becomes(t, "of a small heap", func(percent uint64) bool { return percent > 100 })
	large := make([]byte, 2*ease)
	becomes(t, "of a large heap", func(percent uint64) bool { return percent < 100 && percent > fewest })
	runtime.KeepAlive(large)
	becomes(t, "of a heap that is small again", func(percent uint64) bool { return percent > 100 })
	stop()
	runtime.GC()
	if got := gogc(); got != before {
		t.Errorf("GOGC is %d after the stop, was %d before the start", got, before)
	}
}

func TestPaceLeavesTheUsersGOGC(t *testing.T) {
	before := gogc()
	stop := Pace(func(name string) string { return map[string]string{"GOGC": "50"}[name] })
	defer stop()
	runtime.GC()
	if got := gogc(); got != before {
		t.Errorf("GOGC is %d, want it left at %d", got, before)
	}
}

func becomes(t *testing.T, what string, right func(percent uint64) bool) {
	t.Helper()
	if err := lab.Eventually(10*time.Second, func() error {
		runtime.GC()
		if got := gogc(); !right(got) {
			return fmt.Errorf("GOGC %s is %d", what, got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func gogc() uint64 {
	now := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(now)
	return now[0].Value.Uint64()
}
