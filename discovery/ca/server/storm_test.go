package server

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

// Ten thousand agents renew in one second. They are admitted at the rate, each comes again when it is told to and gets a certificate; few come more than
// twice, for a refusal costs a handshake too.
func TestAStormComesAgainInTurn(t *testing.T) {
	const agents = 10000
	synctest.Test(t, func(t *testing.T) {
		d := New(Config{})
		var mu sync.Mutex
		var wait sync.WaitGroup
		began := time.Now()
		admitted, attempts := map[int]int{}, make([]int, agents)
		for n := range agents {
			wait.Go(func() {
				id := ca.Identity{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: fmt.Sprint("agent-", n)}
				<-time.After(time.Duration(n) * time.Second / agents)
				for {
					attempts[n]++
					err := d.admit(id, time.Now())
					if err == nil {
						mu.Lock()
						admitted[int(time.Since(began)/time.Second)]++
						mu.Unlock()
						return
					}
					busy := new(Busy)
					if !errors.As(err, &busy) || busy.After <= 0 || busy.After > longestQueue {
						t.Errorf("agent %d: %v", n, err)
						return
					}
					<-time.After(time.Duration(math.Ceil(busy.After.Seconds())) * time.Second) // as Retry-After says it
				}
			})
		}
		wait.Wait()
		total := 0
		for second, n := range admitted {
			if total += n; n > inAllAtOnce+inAll {
				t.Errorf("%d are admitted in second %d", n, second)
			}
		}
		most := slices.Max(attempts)
		sum := 0
		for _, n := range attempts {
			sum += n
		}
		if took := time.Since(began); total != agents || took > 30*time.Second || sum > 3*agents {
			t.Errorf("%d of %d agents have a certificate after %s and %d attempts, %d of one", total, agents, took, sum, most)
		}
		t.Logf("%d attempts of %d agents, %d at most, in %s", sum, agents, most, time.Since(began))
	})
}

// One identity that asks all the time does not make others wait longer.
func TestOneIdentityDoesNotLengthenTheQueue(t *testing.T) {
	d, now := New(Config{}), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for n := range inAllAtOnce {
		if err := d.admit(ca.Identity{ServiceAccount: fmt.Sprint(n)}, now); err != nil {
			t.Fatal(err)
		}
	}
	busy := new(Busy)
	greedy := ca.Identity{ServiceAccount: "greedy"}
	for range 100000 {
		now = now.Add(time.Microsecond)
		if err := d.admit(greedy, now); err == nil {
			continue
		}
	}
	if err := d.admit(ca.Identity{ServiceAccount: "other"}, now); err != nil && (!errors.As(err, &busy) || busy.After > 2*time.Second) {
		t.Errorf("another identity waits %s after %q", busy.After, err)
	}
}
