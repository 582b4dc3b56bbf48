package ads

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// A push can be followed from its changes to the last proxy's answer.
func TestPushIsObservable(t *testing.T) {
	both(t, base, func(r *rig, v content.Variant) {
		fast, slow := r.started(v, base), r.started(v, base)
		changed := time.Now()
		pass(100 * time.Millisecond)
		g := r.current.Load().follow(adstest.Mesh(1), model.Change{Since: changed, Keys: []string{"config/a"}, Count: 1}, r.names)
		next := state("a=1 b=1", "a=2 b=1", "l=1", "r=1")
		g.Snapshots.Get(content.Reader{View: adstest.View(t, "127.0.0.9")}, func() *content.Snapshot { return next })
		r.publish(g)
		synctest.Wait()
		got := r.Pushes()[len(r.Pushes())-1]
		if got.Waiting != 2 || got.Responses["eds"] != 2 || len(got.Responses) != 1 || got.Generation != g.number {
			t.Errorf("both are sent endpoints and nothing else: %+v", got)
		}
		pass(time.Second)
		fast.ack(content.EDS)
		pass(time.Second)
		clients := r.Clients()
		if a, b := clients[0].Generation, clients[1].Generation; a+b != 2*g.number-1 {
			t.Errorf("generations %d and %d, want one to have %d", a, b, g.number)
		}
		slow.nack(content.EDS, "malformed")
		got = r.Pushes()[len(r.Pushes())-1]
		want := Push{
			Generation: g.number, Cause: []string{"config/a"}, Changes: 1, Since: changed, Pushed: changed.Add(100 * time.Millisecond),
			Responses: map[string]int{"eds": 2}, Proxies: 2, First: changed.Add(1100 * time.Millisecond), Last: changed.Add(2100 * time.Millisecond),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		metrics := fmt.Sprintf(`
			# HELP pilot_xds Connected proxies.
			# TYPE pilot_xds gauge
			pilot_xds{type="sidecar",variant="%s",version=""} 2
			# HELP pilot_xds_rejects_total Responses that a proxy refused.
			# TYPE pilot_xds_rejects_total counter
			pilot_xds_rejects_total{type="eds"} 1
		`, v)
		registry := prometheus.NewRegistry()
		registry.MustRegister(r.Metrics())
		if err := testutil.GatherAndCompare(registry, strings.NewReader(metrics), "pilot_xds", "pilot_xds_rejects_total"); err != nil {
			t.Error(err)
		}
		if n := testutil.ToFloat64(r.metrics.pushes.WithLabelValues("eds", "acked")); n != 3 { // two at the start
			t.Errorf("%g ACKs of EDS, want 3", n)
		}
	})
}

// A proxy that leaves, or that the next push overtakes, does not keep a push waiting.
func TestPushEndsWithoutTheSlow(t *testing.T) {
	h := history{}
	start := time.Unix(0, 0)
	for i := range 3 {
		var none *generation
		g := none.follow(nil, model.Change{Since: start}, nil)
		g.number = int64(i + 2)
		h.begin(g, 2, start)
	}
	if took := h.reached(1, 3, start.Add(time.Second)); len(took) != 0 {
		t.Errorf("one of two has answered: ended %v", took)
	}
	if took := h.reached(1, 4, start.Add(2*time.Second)); len(took) != 2 || took[0] != 2*time.Second {
		t.Errorf("the other has reached 2 to 4: ended %v, want 2 and 3", took)
	}
	if last := h.list()[2]; last.Waiting != 1 || !last.Last.IsZero() {
		t.Errorf("4 waits for the first: %+v", last)
	}
	for i := range 3 * maxPushes {
		var none *generation
		g := none.follow(nil, model.Change{}, nil)
		g.number = int64(i + 10)
		h.begin(g, 0, start)
	}
	if n := len(h.list()); n != maxPushes {
		t.Errorf("%d pushes are remembered, want %d", n, maxPushes)
	}
}

// The metric counts resources, not the proxies that receive them.
func TestResourcesAreCounted(t *testing.T) {
	r := run(t)
	r.SetSecrets(secretsOf("a=1 b=1"))
	r.Push(adstest.Mesh(1, "a", "b"), model.Change{})
	for range 2 {
		r.open().ask(content.ClusterType)
	}
	g := r.current.Load()
	s := g.Snapshot(content.Reader{View: adstest.View(t, "127.0.0.9")})
	var metrics strings.Builder
	fmt.Fprintf(&metrics, "# HELP pilot_xds_resources Resources that connected proxies may be told, each once.\n# TYPE pilot_xds_resources gauge\n")
	for k, n := range [content.Kinds]int{content.CDS: s[content.CDS].Size(), content.EDS: 2, content.LDS: s[content.LDS].Size(), content.RDS: s[content.RDS].Size(), content.SDS: 3} {
		fmt.Fprintf(&metrics, "pilot_xds_resources{type=%q} %d\n", content.Kind(k), n)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(r.Metrics())
	if err := testutil.GatherAndCompare(registry, strings.NewReader(metrics.String()), "pilot_xds_resources"); err != nil {
		t.Error(err)
	}
}
