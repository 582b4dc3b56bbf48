package client

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotlight/pilotlight/discovery/acme"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// counts are the metrics.
type counts struct {
	orders *prometheus.CounterVec // by result
}

func newCounts() *counts {
	return &counts{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pilotlight_acme_orders_total", Help: "Tries to get a certificate from an issuer, by result: issued, refused or limited.",
	}, []string{"result"})}
}

var (
	held   = prometheus.NewDesc("pilotlight_acme_certificates", "Certificates of issuers that gateways need, by state: held, or missing.", []string{"state"}, nil)
	expiry = prometheus.NewDesc("pilotlight_acme_nearest_expiry_timestamp_seconds", "When the first certificate of issuers ends; absent without any.", nil, nil)
)

// Describe and Collect make the Client a prometheus.Collector.
func (c *Client) Describe(to chan<- *prometheus.Desc) {
	c.counts.orders.Describe(to)
	to <- held
	to <- expiry
}

// Collect sends the metrics.
func (c *Client) Collect(to chan<- prometheus.Metric) {
	c.counts.orders.Collect(to)
	c.mu.Lock()
	defer c.mu.Unlock()
	have, now := 0, time.Now()
	var first time.Time
	for _, s := range c.sets {
		r := c.records[s.Key()]
		if len(r.Chain) == 0 {
			continue
		}
		if now.Before(r.NotAfter) {
			have++
		}
		if first.IsZero() || r.NotAfter.Before(first) {
			first = r.NotAfter
		}
	}
	to <- prometheus.MustNewConstMetric(held, prometheus.GaugeValue, float64(have), "held")
	to <- prometheus.MustNewConstMetric(held, prometheus.GaugeValue, float64(len(c.sets)-have), "missing")
	if !first.IsZero() {
		to <- prometheus.MustNewConstMetric(expiry, prometheus.GaugeValue, float64(first.Unix()))
	}
}

// Notes returns what is to be said of the Gateways that name an issuer.
func (c *Client) Notes() (out []model.Note) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out = slices.Clone(c.notes)
	for _, s := range c.sets {
		out = append(out, c.notesOf(s)...)
	}
	return out
}

// notesOf returns what is to be said of a set. A try that has begun and not ended was a crash only where this process
// leads: else the leader makes it.
func (c *Client) notesOf(s acme.Set) []model.Note {
	r := c.records[s.Key()]
	if r.Begun() && !c.leads {
		return nil
	}
	return append(r.Notes(s, time.Now()), c.lateLocked(s)...)
}

// Lines returns a line for each fault that is not one of a Gateway.
func (c *Client) Lines() (out []string) {
	line := func(of, text string) { out = append(out, of+": "+text) }
	const all = "certificates of issuers"
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault != "" {
		line(all, c.fault)
	}
	if c.crowd {
		line(all, "there are more than 100 kinds of gateways here: other replicas do not know of those beyond")
	}
	for _, name := range slices.Sorted(maps.Keys(c.broken)) {
		line(all, fmt.Sprintf("%v: not asked for until %s", c.broken[name].Err, c.broken[name].At.Add(brokenPause).UTC().Format(time.RFC3339)))
	}
	for _, s := range c.sets {
		of := "certificate of " + s.Hosts[0]
		if said := c.notesOf(s); len(said) > 0 {
			line(of, said[0].Message)
		}
		if why := c.unsaved[s.Key()]; why != "" {
			line(of, "its state is not kept: "+why)
		}
	}
	return out
}
