package proxy

import (
	"fmt"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent/sds"
)

// What nobody asks for is kept for a time, a bounded number of it.
func TestWhatNobodyAsksForIsForgotten(t *testing.T) {
	start := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	u, last := unasked{}, sds.Resume(map[string][]byte{"a": nil, "b": nil})
	for _, step := range []struct {
		after time.Duration
		asked string
		want  int // how many are kept
	}{
		{0, "", 2},
		{keptUnasked / 2, "b", 1},
		{keptUnasked - 1, "b", 1},
		{keptUnasked, "", 1}, // a is forgotten, and b is kept from now
		{2*keptUnasked - 1, "", 1},
		{2 * keptUnasked, "", 0},
	} {
		next, names := sds.Secrets{}, []string(nil)
		if step.asked != "" {
			names = []string{step.asked}
		}
		u.keep(next, last, names, start.Add(step.after))
		if len(next) != step.want {
			t.Errorf("after %v: %d are kept, want %d", step.after, len(next), step.want)
		}
		if step.asked != "" {
			next[step.asked] = last[step.asked]
		}
		last = next
	}
	u.keep(sds.Secrets{}, last, nil, start)
	if len(u) != 0 {
		t.Errorf("%d times are left", len(u))
	}
	many := map[string][]byte{}
	for i := range 3 * mostUnasked {
		many[fmt.Sprint(i)] = nil
	}
	next := sds.Secrets{}
	if u.keep(next, sds.Resume(many), nil, start); len(next) != mostUnasked || len(u) != mostUnasked {
		t.Errorf("%d are kept, and %d times, want %d", len(next), len(u), mostUnasked)
	}
}
