package ads

import (
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// A stop ends within its time limit for any client: one that has connected and sends nothing, and one that opens
// streams when it receives a GOAWAY.
func TestStopEndsInTime(t *testing.T) {
	for name, attack := range map[string]func(t *testing.T, r *running){
		"a silent connection": func(t *testing.T, r *running) {
			conn, err := r.listener.Dial()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
		},
		"streams on GOAWAY": streamsOnGoAway,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stopUnder(t, testLimits(), attack)
			})
			synctest.Test(t, func(t *testing.T) {
				limits := testLimits()
				limits.Shutdown = 0
				stopUnder(t, limits, attack)
			})
		})
	}
}

func stopUnder(t *testing.T, limits Limits, attack func(t *testing.T, r *running)) {
	t.Helper()
	r := runWith(t, limits, nil)
	r.Push(adstest.Mesh(1, "a"), model.Change{})
	for range 8 {
		r.open().ask(content.ClusterType)
	}
	attack(t, r)
	synctest.Wait()
	start := time.Now()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > limits.Shutdown {
		t.Errorf("stopped after %s, want at most %s", took, limits.Shutdown)
	}
}

// A connection without a stream does not keep its descriptor.
func TestIdleConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t)
		r.Push(adstest.Mesh(1, "a"), model.Change{})
		start := time.Now()
		_, gone := r.dialRaw(func(c *rawClient, f http2.Frame) { c.pong(f) })
		<-gone
		if took := time.Since(start); took > idle+30*time.Second {
			t.Errorf("closed after %s, want about %s", took, idle)
		}
	})
}

// streamsOnGoAway answers every GOAWAY, and every ping, with new streams, and continues to read.
func streamsOnGoAway(_ *testing.T, r *running) {
	r.dialRaw(func(c *rawClient, f http2.Frame) {
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			c.open()
		case *http2.PingFrame:
			c.open()
			c.pong(f)
		}
	})
}
