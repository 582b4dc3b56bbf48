package traffic

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/explain"
	"github.com/pilotlight/pilotlight/e2e/lab"
	"github.com/pilotlight/pilotlight/e2e/truth"
)

// running asks the discovery of the world, which knows its connected proxies.
func (w *world) running(q explain.Question) (road explain.Road, err error) {
	text, err := lab.Get("http://" + w.Discovery.HTTP + "/debug/explain?" + q.Values().Encode())
	if err == nil {
		err = json.Unmarshal([]byte(text), &road)
	}
	return road, err
}

// compare sends requests to a proxy, and asks explain about each: see truth.Compare. It is an error if fewer than kinds of ends are seen.
func (w *world) compare(p *lab.Proxy, ask truth.Asked, by truth.Way, all []*truth.Exchange, kinds int) {
	t := w.T
	t.Helper()
	began := time.Now()
	for _, e := range all {
		w.asked++
		e.Number = w.asked
	}
	got, err := truth.Compare(p.Log, ask, by, w.atOnce, all)
	w.Check(err)
	for _, fault := range got.Faults[:min(10, len(got.Faults))] {
		t.Error(fault)
	}
	t.Logf("%d requests in %v, of which explain says %d things: %v", len(all), time.Since(began), got.Things, slices.Sorted(maps.Keys(got.Kinds)))
	if len(got.Kinds) < kinds {
		t.Errorf("only %d kinds of ends were seen: %v", len(got.Kinds), got.Kinds)
	}
}
