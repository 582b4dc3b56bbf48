package heap

import (
	"fmt"
	"runtime"
	"runtime/debug"
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
		live, roots uint64 // MiB
		want        int
		goal        uint64 // MiB, by the runtime's rule
	}{
		{name: "nothing lives", want: 100, goal: 0},
		{name: "a mesh without proxies", live: 12, want: 100, goal: 24},
		{name: "twice what lives", live: 48, roots: 2, want: 100, goal: 98},
		{name: "past that there is room for less than what lives", live: 60, roots: 10, want: 76, goal: 113},
		{name: "four times what lives there leaves twice the room", live: 192, want: 50, goal: 288},
		{name: "as little room as there is", live: 768, want: 25, goal: 960},
		{name: "a large mesh has a quarter", live: 4096, roots: 100, want: 25, goal: 5145},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := percent(c.live*mebibyte, c.roots*mebibyte)
			if got != c.want {
				t.Errorf("GOGC is %d, want %d", got, c.want)
			}
			if goal := c.live + (c.live+c.roots)*uint64(got)/100; goal != c.goal {
				t.Errorf("collected at %d MiB, want %d", goal, c.goal)
			}
		})
	}
}

// TestPaceFollowsTheHeap: the runtime's GOGC changes with the live heap, and has its first value again at the end.
func TestPaceFollowsTheHeap(t *testing.T) {
	before := gogc()
	stop := Pace(func(string) string { return "" })
	becomes(t, "of a small heap", func(percent uint64) bool { return percent == most })
	lessened := func(percent uint64) bool { return percent < most && percent > fewest }
	large := make([]byte, 4*even)
	becomes(t, "of a large heap", lessened)
	runtime.KeepAlive(large)
	becomes(t, "of a heap that is small again", func(percent uint64) bool { return percent == most })
	large = make([]byte, 4*even)
	becomes(t, "of a heap that is large again", lessened)
	stop()
	runtime.GC()
	runtime.KeepAlive(large)
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

func TestBrief(t *testing.T) {
	gogc := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
	before := gogc()
	stop := Brief(func(string) string { return "" })
	if now := gogc(); now != room {
		t.Errorf("GOGC is %d, want %d", now, room)
	}
	if stop(); gogc() != before {
		t.Errorf("GOGC is %d, want %d as before", gogc(), before)
	}
	Brief(func(string) string { return "50" })
	if now := gogc(); now != before {
		t.Errorf("GOGC is %d though the user has set it", now)
	}
}

func TestDue(t *testing.T) {
	for _, c := range []struct {
		name      string
		last, now spare
		given     uint64
		want      bool
	}{
		{"busy", spare{100 << 20, 0}, spare{200 << 20, 90 << 20}, 0, false},
		{"it was busy, and is no more", spare{200 << 20, 90 << 20}, spare{201 << 20, 90 << 20}, 0, true},
		{"what it used since is not worth it", spare{201 << 20, 90 << 20}, spare{202 << 20, 90 << 20}, 200 << 20, false},
		{"there is nothing to give", spare{200 << 20, 0}, spare{201 << 20, 8 << 20}, 0, false},
		{"a small server", spare{1 << 20, 0}, spare{2 << 20, 1 << 20}, 0, false},
	} {
		if got := due(c.last, c.now, c.given); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}
