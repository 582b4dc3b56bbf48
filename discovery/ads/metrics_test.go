package ads

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// The metrics keep promtool's rules.
func TestMetricsAreWellNamed(t *testing.T) {
	r := run(t)
	r.Push(adstest.Mesh(1, "a"), model.Change{Since: time.Now()})
	s := r.open()
	s.ack(s.ask(clusterType))
	r.metrics.answered(lds, true)
	r.metrics.resets.WithLabelValues("client").Inc()
	r.metrics.refused.WithLabelValues("rate").Inc()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r.Metrics())
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// The time of a push is measured with the proxies that waited for it: not with one that connects later, nor with one
// that requests more later.
func TestPushTimeDoesNotCountWhoComesLater(t *testing.T) {
	both(t, nil, func(r *rig, v variant) {
		observed := func() uint64 {
			var m dto.Metric
			if err := r.metrics.pushTime.Write(&m); err != nil {
				r.t.Fatal(err)
			}
			return m.GetHistogram().GetSampleCount()
		}
		r.Push(adstest.Mesh(1, "a", "b"), model.Change{Since: time.Now()})
		c := r.connect(v)
		c.subscribe(cds)
		c.ack(cds)
		c.subscribe(eds, adstest.Cluster("a"))
		c.ack(eds)
		if n := observed(); n != 0 {
			r.t.Errorf("a first configuration: %d observations, want none", n)
		}
		r.Push(adstest.Mesh(2, "a", "b"), model.Change{Since: time.Now()})
		c.want("a change", c.got(), "eds:"+adstest.Cluster("a"))
		c.ack(eds)
		if n := observed(); n != 1 {
			r.t.Errorf("a change: %d observations, want 1", n)
		}
		<-time.After(time.Hour)
		if v == delta {
			c.subscribe(eds, adstest.Cluster("b"))
		} else {
			c.ask(eds, adstest.Cluster("a"), adstest.Cluster("b"))
		}
		c.ack(eds)
		again := r.connectBy(r.dialPlain(), v)
		again.subscribe(cds)
		again.ack(cds)
		if n := observed(); n != 1 {
			r.t.Errorf("after another subscription and a reconnect: %d observations, want 1 still", n)
		}
	})
}
