package envoy

import (
	"testing"
	"time"
)

// A rejection is mended by a later accepted update of the same subscription, or by its end.
func TestRefusalIsOpen(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	c := &process{}
	for _, step := range []struct {
		name     string
		stats    map[string]int64
		rejected time.Time
		open     bool
	}{
		{"a is rejected", map[string]int64{"a.update_rejected": 1, "a.update_time": 50, "b.update_time": 200}, at(100), true},
		{"a is mended", map[string]int64{"a.update_rejected": 1, "a.update_time": 150}, at(100), false},
		{"b is rejected", map[string]int64{"a.update_rejected": 1, "a.update_time": 150, "b.update_rejected": 1}, at(300), true},
		{"b is withdrawn", map[string]int64{"a.update_rejected": 1, "a.update_time": 150}, at(300), false},
		{"a is rejected again", map[string]int64{"a.update_rejected": 2, "a.update_time": 150}, at(400), true},
		{"nothing is left", nil, at(400), false},
	} {
		if got := c.open(step.stats, step.rejected); got != step.open {
			t.Errorf("%s: open %v, want %v", step.name, got, step.open)
		}
	}
}
