package heap

import "testing"

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
