package heap

import (
	"runtime/debug"
	"testing"
)

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
