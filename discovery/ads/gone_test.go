package ads

import (
	"fmt"
	"testing"
	"time"
)

// A proxy that has left is named until it is back, or for a while; only the last ones are kept.
func TestGone(t *testing.T) {
	start := time.Unix(1000, 0)
	var d departed
	d.add(Gone{At: start}) // it never said who it is
	d.add(Gone{Node: "sidecar~10.0.0.1~a.shop~x", At: start, Cause: "client"})
	d.add(Gone{Node: "b", At: start.Add(time.Second)})
	d.add(Gone{Node: "sidecar~10.0.0.1~a.shop~x", At: start.Add(2 * time.Second), Cause: "slow"})
	got := fmt.Sprint(d.since(start, nil))
	if want := fmt.Sprint([]Gone{{"sidecar~10.0.0.1~a.shop~x", "a.shop", "10.0.0.1", start.Add(2 * time.Second), "slow"}, {"b", "", "", start.Add(time.Second), ""}}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := d.since(start, map[string]bool{"b": true}); len(got) != 1 || got[0].Name != "a.shop" {
		t.Errorf("b is back: got %v", got)
	}
	if got := d.since(start.Add(time.Minute), nil); len(got) != 0 {
		t.Errorf("all left before: got %v", got)
	}
	for i := range 3 * maxGone {
		d.add(Gone{Node: fmt.Sprint(i), At: start.Add(time.Hour)})
	}
	if n := len(d.since(start, nil)); n != maxGone {
		t.Errorf("%d are remembered, want %d", n, maxGone)
	}
}
