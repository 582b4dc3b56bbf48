package envoy

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pilotlight/pilotlight/agent"
)

// The caller may ask for the remains of an epoch when others have ended since.
func TestRemainsOfEpochsThatEndTogether(t *testing.T) {
	p := &Proxy{}
	end := func(epoch int, line string) {
		c := &process{Proxy: p, launch: agent.Launch{Epoch: epoch}, output: &output{}}
		c.output.recent = []Record{{Message: line}}
		p.keep(c)
	}
	expect := func(epoch int, want ...string) {
		t.Helper()
		if got := p.Remains(epoch).LastLines; !slices.Equal(got, want) {
			t.Errorf("Remains(%d): last lines %q, want %q", epoch, got, want)
		}
	}
	end(1, "one")
	end(2, "two")
	expect(1, "one")
	expect(2, "two")
	expect(0)
	end(1, "one again")
	expect(1, "one again")
	expect(2, "two")
	for epoch := range keptRemains {
		end(10+epoch, fmt.Sprint(epoch))
	}
	expect(1)
	expect(2)
	expect(10, "0")
}
