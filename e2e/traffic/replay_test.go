package traffic

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/pilotlight/pilotlight/e2e/lab"
	"github.com/pilotlight/pilotlight/e2e/truth"
)

// replayed is how many requests a scenario's proxy is sent that are compared with what explain says.
const replayed = 200

// replay compares what explain says of requests with what the Envoy of a scenario does, at a moment at which everything that the test has applied has
// arrived. The requests are made of what Envoy itself has: its listeners, domains and conditions, met and missed. Discovery, which runs, is asked about
// each.
func (w *world) replay(p *lab.Proxy) {
	t := w.T
	t.Helper()
	w.settled(p)
	text, err := lab.Get("http://" + p.Admin + "/config_dump")
	w.Check(err)
	var dump any
	w.Check(json.Unmarshal([]byte(text), &dump))
	has := truth.Parts{Outside: w.outside()}
	has.Read(dump)
	if w.shared {
		has.Listeners = slices.DeleteFunc(has.Listeners, func(l truth.Listener) bool { return l.Address != p.HTTP })
	}
	if len(has.Listeners) == 0 {
		t.Fatalf("nothing listens in\n%s", text)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	by := map[string]truth.Way{}
	var all []*truth.Exchange
	for i := range replayed {
		at := has.Listeners[i%len(has.Listeners)]
		e := has.Draw(draw, at)
		e.From = p.ID
		if at.Address != p.HTTP {
			e.Address, e.TCP, e.TLS = at.Address, draw.IntN(6) == 0, draw.IntN(3) == 0
			e.TLS = e.TLS && !e.TCP
		}
		if by[e.Address] == nil {
			by[e.Address] = truth.Direct(at.Address)
			if at.Address == p.HTTP {
				by[e.Address] = truth.Through(p.HTTP)
			}
		}
		all = append(all, e)
	}
	w.compare(p, w.running, func(e *truth.Exchange) { by[e.Address](e) }, all, 1)
}

// settled waits until a proxy has everything that discovery has read.
func (w *world) settled(p *lab.Proxy) {
	w.T.Helper()
	w.Check(truth.Settled(func(path string) (string, error) { return lab.Get("http://" + w.Discovery.HTTP + path) }, p.ID))
}

// outside is the address of a server that no object names.
func (w *world) outside() string {
	b := w.Backend("outside")
	return fmt.Sprintf("%s:%d", b.IP, b.Port)
}
