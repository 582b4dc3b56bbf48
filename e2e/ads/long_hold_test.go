//go:build long

package ads

import (
	"testing"
	"time"
)

// The attacks of make test, for as long as discovery has patience with a client, and longer.
func TestLongRequestsThatAreHeldBack(t *testing.T) {
	for _, a := range attacks {
		for _, variant := range variants {
			t.Run(a.name+"/"+variant, func(t *testing.T) {
				t.Parallel() // each has a discovery of its own
				a.strike(t, variant, 40*time.Second)
			})
		}
	}
}
