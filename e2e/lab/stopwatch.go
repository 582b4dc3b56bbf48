package lab

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Stopwatch measures how long something takes on a machine that other tests use too. The time in which a process of the machine
// waited for a processor or a disk, which the kernel counts (/proc/pressure), does not count: a limit of a second holds on a
// machine at rest, and no neighbour breaks it. A kernel that does not count leaves nothing out.
type Stopwatch struct {
	began  time.Time
	waited time.Duration
}

// StartStopwatch begins to measure.
func StartStopwatch() Stopwatch { return Stopwatch{time.Now(), waited()} }

// Took is the time since the start, in milliseconds, by the clock on the wall.
func (s Stopwatch) Took() time.Duration { return time.Since(s.began).Round(time.Millisecond) }

// Waited is for how long since the start a process of the machine waited for a processor or a disk.
func (s Stopwatch) Waited() time.Duration { return waited() - s.waited }

// Within fails the test if what took longer than limit on a machine at rest.
func (s Stopwatch) Within(t testing.TB, limit time.Duration, what string) {
	t.Helper()
	if err := s.late(limit); err != nil {
		t.Errorf("%s %v", what, err)
	}
}

// late returns an error for what takes longer than limit on a machine at rest.
func (s Stopwatch) late(limit time.Duration) error {
	took := s.Took()
	if took <= limit {
		return nil
	}
	if away := s.Waited().Round(time.Millisecond); took-away > limit {
		return fmt.Errorf("took %s, and processes waited for %s of it: want at most %s without waiting", took, away, limit)
	}
	return nil
}

// stopwatches starts many of them: it asks the kernel once a second, so that one may leave out a second more than it should.
type stopwatches struct {
	mu   sync.Mutex
	last Stopwatch
}

func (s *stopwatches) start() Stopwatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.last.began) > time.Second {
		s.last = StartStopwatch()
	}
	return Stopwatch{time.Now(), s.last.waited}
}

// waited is how long since the machine's start at least one of its processes waited for a processor, and for a disk.
func waited() time.Duration {
	var sum time.Duration
	for _, resource := range []string{"cpu", "io"} {
		text, _ := os.ReadFile("/proc/pressure/" + resource)
		some, _, _ := strings.Cut(string(text), "\n") // some avg10=0.69 avg60=1.07 avg300=12.55 total=MICROSECONDS
		_, total, _ := strings.Cut(some, "total=")
		microseconds, _ := strconv.ParseInt(total, 10, 64)
		sum += time.Duration(microseconds) * time.Microsecond
	}
	return sum
}
