package envoy

import (
	"context"
	"time"

	"github.com/pilotlight/pilotlight/agent/health"
)

// discoveryCluster is the ADS server's name in the bootstraps that the agent renders, and in Istio's.
const discoveryCluster = "cluster.xds-grpc."

// link queries the state of the connection to discovery; nil if the query fails, or if no cluster of the bootstrap is
// known to be discovery's. Where a relay serves Envoy, that cluster is the relay.
func (c *process) link(ctx context.Context, relayed *health.Relayed) *health.Link {
	if relayed != nil {
		l := health.Link{Hosts: 1, Why: relayed.Why}
		if relayed.Connected {
			l.Connected = 1
		} else if why := c.diagnose(ctx); why != "" {
			l.Why = why
		}
		return &l
	}
	stats, err := c.admin.Stats(ctx, `^cluster\.xds-grpc\.(membership_total|upstream_cx_(active|connect_fail)|`+
		`upstream_rq_(total|active)|ssl\.fail_verify_(san|error))$`)
	if err != nil || len(stats) == 0 && c.Discovery.Host == "" {
		return nil
	}
	l := linkOf(stats)
	if l.Connected == 0 {
		l.Why = c.diagnose(ctx)
	}
	return &l
}

// linkOf computes a Link from statistics. A stream is a request that is active while it is open. upstream_rq_completed
// is not used, since it counts failed connections as well.
func linkOf(stats map[string]int64) health.Link {
	return health.Link{
		Hosts:           stats[discoveryCluster+"membership_total"],
		Connected:       stats[discoveryCluster+"upstream_cx_active"],
		ConnectFailures: stats[discoveryCluster+"upstream_cx_connect_fail"],
		WrongIdentity:   stats[discoveryCluster+"ssl.fail_verify_san"],
		Unverified:      stats[discoveryCluster+"ssl.fail_verify_error"],
		Ended:           stats[discoveryCluster+"upstream_rq_total"] - stats[discoveryCluster+"upstream_rq_active"],
	}
}

// diagnose returns the last diagnosis, and starts a new one at intervals. It does not wait, since Envoy may become live
// at any moment.
func (c *process) diagnose(ctx context.Context) string {
	if c.Discovery.Host != "" && time.Since(c.diagnosed) >= diagnosisInterval {
		c.diagnosed = time.Now()
		c.diagnosing.Go(func() {
			why := c.Discovery.Diagnose(ctx)
			if last := c.diagnosis.Swap(&why); why != "" && (last == nil || *last != why) && ctx.Err() == nil {
				c.Log.Warn("Envoy cannot talk to discovery", "epoch", c.launch.Epoch, "why", why)
			}
		})
	}
	if why := c.diagnosis.Load(); why != nil {
		return *why
	}
	return ""
}
