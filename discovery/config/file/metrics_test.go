package file

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetrics(t *testing.T) {
	s := &Source{}
	s.status.Store(&Status{
		Lost: []string{"d"}, Held: "x", HeldNow: 4,
		Kinds: map[string]Count{"Gateway": {Served: 5, LastGood: 1, Held: 4}, "Sidecar": {Refused: 2}},
	})
	registry := prometheus.NewPedanticRegistry()
	other := &Source{} // another directory
	other.status.Store(&Status{Kinds: map[string]Count{"Gateway": {Served: 7}}})
	registry.MustRegister(Metrics(func() map[string]*Source { return map[string]*Source{"config": s, "fs:///more": other} }))
	families, err := registry.Gather()
	must(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := ""
			for _, l := range m.Label {
				name += l.GetName() + "=" + l.GetValue() + " "
			}
			got[name] = m.Gauge.GetValue()
		}
	}
	want := map[string]float64{
		"kind=Gateway source=config state=served ": 5, "kind=Gateway source=config state=last_good ": 1, "kind=Gateway source=config state=refused ": 0,
		"kind=Gateway source=config state=held ": 4, "kind=Sidecar source=config state=served ": 0, "kind=Sidecar source=config state=last_good ": 0,
		"kind=Sidecar source=config state=refused ": 2, "kind=Sidecar source=config state=held ": 0,
		"source=config state=unreadable ": 1, "source=config state=waiting ": 0,
		"kind=Gateway source=fs:///more state=served ": 7, "kind=Gateway source=fs:///more state=last_good ": 0,
		"kind=Gateway source=fs:///more state=refused ": 0, "kind=Gateway source=fs:///more state=held ": 0,
		"source=fs:///more state=unreadable ": 0, "source=fs:///more state=waiting ": 0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
}
