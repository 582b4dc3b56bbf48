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
	registry.MustRegister(s)
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
		"kind=Gateway state=served ": 5, "kind=Gateway state=last_good ": 1, "kind=Gateway state=refused ": 0, "kind=Gateway state=held ": 4,
		"kind=Sidecar state=served ": 0, "kind=Sidecar state=last_good ": 0, "kind=Sidecar state=refused ": 2, "kind=Sidecar state=held ": 0,
		"state=unreadable ": 1, "state=waiting ": 0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
}
