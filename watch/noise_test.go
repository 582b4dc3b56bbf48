package watch

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestNoise(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		every time.Duration
		want  int // of the event that is the first too many; 0 for none
	}{
		"2,000 a second":             {500 * time.Microsecond, noiseLimit + 1},
		"a burst":                    {0, noiseLimit + 1},
		"ten a second, for a minute": {100 * time.Millisecond, 0},
		"400 a second":               {2500 * time.Microsecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var s noise
			got := 0
			for i := 1; i <= 600 && got == 0; i++ {
				if s.loud(start.Add(time.Duration(i) * test.every)) {
					got = i
				}
			}
			if got != test.want {
				t.Errorf("event %d is one too many, want %d", got, test.want)
			}
		})
	}
}

// A busy file beside the watched one costs no wake-ups for long, and hides no change.
func TestABusyNeighbour(t *testing.T) {
	dir := t.TempDir()
	watched, busy := filepath.Join(dir, "bootstrap.json"), filepath.Join(dir, "access.log")
	must(t, os.WriteFile(watched, []byte("1"), 0o644))
	log, err := os.Create(busy)
	must(t, err)
	defer log.Close()
	a := newArmed([]string{watched}, nil)
	defer a.close()
	a.arm()
	var s noise
	deaf := false
	for !deaf { // as Run does
		for range 10 {
			must(t, write(log))
		}
		select {
		case e := <-a.events():
			if relevant(e.Name, a.targets) {
				t.Fatalf("an event of the neighbour means something: %v", e)
			}
			if deaf = s.loud(time.Now()); deaf {
				a.deafen()
			}
		case <-time.After(time.Minute):
			t.Fatal("no event")
		}
	}
	if a.events() != nil {
		t.Error("it listens on")
	}

	ticks := start(t, Watcher{Paths: []string{watched}, Quiet: quiet, Ceiling: 20 * quiet})
	one(t, ticks, "the watch stands", func() {})
	for range 20 * noiseLimit {
		must(t, write(log))
	}
	must(t, os.WriteFile(watched, []byte("2"), 0o644))
	await(t, ticks, "a change among the noise")
	one(t, ticks, "it listens again", func() { must(t, os.WriteFile(watched, []byte("3"), 0o644)) })
}

func write(file *os.File) error {
	_, err := file.WriteString("GET / 200\n")
	return err
}
