package content

import (
	"runtime"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
)

// Equal lists are one value, in any encoding; a list without references is dropped.
func TestInternerSharesNames(t *testing.T) {
	in := NewInterner()
	read := func(list ...string) *Names {
		var fields []byte
		for _, name := range list {
			fields = appendNames(fields, []string{name}, false)
		}
		n, err := in.OfWire(fields)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	one := read("a", "b", "c")
	if read("a", "b", "c") != one || read("c", "a", "b", "a") != one || in.Of([]string{"a", "b", "c"}) != one {
		t.Error("equal lists are different values")
	}
	if read("a", "b") == one || read() != nil || !read("*").star || read("*").Len() != 0 {
		t.Error("different lists are one value, or the star is a name")
	}
	runtime.KeepAlive(one)
	adstest.Until(t, "the lists to be forgotten", func() bool {
		runtime.GC()
		in.mu.Lock()
		defer in.mu.Unlock()
		return len(in.live) == 0
	})
}
