package relay

import (
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent/lastgood"
)

// An Envoy that refuses its listeners has no whole configuration, and yet waits for nothing: discovery is not silent.
func TestWaits(t *testing.T) {
	e := newEnvoy(1)
	now := time.Unix(100, 0)
	for i, step := range []struct {
		request      lastgood.Request
		waits, whole bool
	}{
		{lastgood.Request{Type: lastgood.TypeCluster}, true, false},
		{lastgood.Request{Type: lastgood.TypeCluster, Nonce: "1"}, false, false},
		{lastgood.Request{Type: lastgood.TypeListener}, true, false},
		{lastgood.Request{Type: lastgood.TypeListener, Nonce: "1", Refused: true}, false, false},
		{lastgood.Request{Type: lastgood.TypeSecret}, false, false}, // which may be refused for ever
		{lastgood.Request{Type: lastgood.TypeListener, Nonce: "2"}, false, true},
		{lastgood.Request{Type: lastgood.TypeEndpoints}, true, false},
	} {
		e.request(step.request, now)
		if waits, whole := e.waits(), e.whole(now); waits != step.waits || whole != step.whole {
			t.Errorf("step %d: waits %t, whole %t", i, waits, whole)
		}
	}
	if !e.whole(now.Add(patience)) {
		t.Error("it waits for ever")
	}
}
