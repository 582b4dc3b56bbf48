package ads

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// The metrics keep promtool's rules.
func TestMetricsAreWellNamed(t *testing.T) {
	r := run(t)
	r.Push(adstest.Mesh(1, "a"), model.Change{Since: time.Now()})
	s := r.open()
	s.ack(s.ask(content.ClusterType))
	r.metrics.answered(content.LDS, true)
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
	both(t, nil, func(r *rig, v content.Variant) {
		observed := func() uint64 {
			var m dto.Metric
			if err := r.metrics.pushTime.Write(&m); err != nil {
				r.t.Fatal(err)
			}
			return m.GetHistogram().GetSampleCount()
		}
		r.Push(adstest.Mesh(1, "a", "b"), model.Change{Since: time.Now()})
		c := r.connect(v)
		c.subscribe(content.CDS)
		c.ack(content.CDS)
		c.subscribe(content.EDS, adstest.Cluster("a"))
		c.ack(content.EDS)
		if n := observed(); n != 0 {
			r.t.Errorf("a first configuration: %d observations, want none", n)
		}
		r.Push(adstest.Mesh(2, "a", "b"), model.Change{Since: time.Now()})
		c.want("a change", c.got(), "eds:"+adstest.Cluster("a"))
		c.ack(content.EDS)
		if n := observed(); n != 1 {
			r.t.Errorf("a change: %d observations, want 1", n)
		}
		<-time.After(time.Hour)
		if v == content.Delta {
			c.subscribe(content.EDS, adstest.Cluster("b"))
		} else {
			c.ask(content.EDS, adstest.Cluster("a"), adstest.Cluster("b"))
		}
		c.ack(content.EDS)
		again := r.connectBy(r.dialPlain(), v)
		again.subscribe(content.CDS)
		again.ack(content.CDS)
		if n := observed(); n != 1 {
			r.t.Errorf("after another subscription and a reconnect: %d observations, want 1 still", n)
		}
	})
}
