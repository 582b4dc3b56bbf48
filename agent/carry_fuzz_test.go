package agent

import (
	"encoding/json"
	"testing"
	"time"
)

// FuzzCarried: a state that passes Check, whatever wrote it, makes no supervisor fail: with processes that obey, it goes on for a day, and a
// stop comes to its end.
func FuzzCarried(f *testing.F) {
	for _, change := range []func(*Carried){
		func(*Carried) {},
		func(c *Carried) { c.Drained, c.Asked = true, Resume },
		func(c *Carried) { c.Epochs, c.RetryAt, c.Failures = nil, origin.Add(time.Minute), 3 },
		func(c *Carried) { c.Exits = []CarriedExit{{0, Exit{Code: 1}}} },
		func(c *Carried) {
			c.Desired, c.Handover = b, CarriedHandover{Stage: string(quiet), Began: origin, Due: origin.Add(time.Second)}
		},
		func(c *Carried) {
			c.Desired, c.Handover.Stage, c.Refusal = b, string(refused), CarriedRefusal{b, "no", origin}
		},
		func(c *Carried) { c.Failures, c.Saved, c.Families = 1<<62, 1<<62, 1<<62 },
		func(c *Carried) { c.Epochs[0].Launch.Epoch, c.Epochs[0].Launch.Restart = 1<<63-1, 1<<63-1 },
		func(c *Carried) {
			c.Epochs[0].LiveAt, c.RetryAt, c.Served = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), 1<<62
		},
	} {
		c := served()
		change(&c)
		text, err := json.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, []byte{0, 1, 7, 7, 3, 1, 2, 7})
	}
	f.Fuzz(func(t *testing.T, text, script []byte) {
		var c Carried
		if json.Unmarshal(text, &c) != nil || c.Check() != nil {
			return
		}
		w := &world{t: t, now: origin, state: c.state(origin)}
		for _, e := range c.Epochs {
			w.alive = append(w.alive, process{Launch: e.Launch, live: true, drainedInbound: e.DrainedInbound})
		}
		w.unjudged, w.drained = true, c.Drained
		for _, e := range c.Exits {
			w.exit(0, e.Exit)
		}
		for _, b := range script {
			if w.ended {
				return
			}
			w.now = w.now.Add(time.Duration(b>>4) * time.Hour)
			w.blow(b & 15)
		}
		w.bury()
	})
}
