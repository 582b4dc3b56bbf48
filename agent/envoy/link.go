package envoy

import (
	"context"

	"github.com/pilotlight/pilotlight/agent/health"
)

// discoveryCluster is the ADS server's name in the bootstraps that the agent renders, and in Istio's.
const discoveryCluster = "cluster.xds-grpc."

// link asks how the connection to discovery fares, nothing where no cluster of the bootstrap is known as discovery's.
func (c *process) link(ctx context.Context) *health.Link {
	stats, err := c.admin.Stats(ctx, `^cluster\.xds-grpc\.(membership_total|upstream_cx_(active|connect_fail)|`+
		`upstream_rq_completed|ssl\.fail_verify_(san|error))$`)
	if err != nil || len(stats) == 0 {
		return nil
	}
	return &health.Link{
		Hosts:           stats[discoveryCluster+"membership_total"],
		Connected:       stats[discoveryCluster+"upstream_cx_active"],
		ConnectFailures: stats[discoveryCluster+"upstream_cx_connect_fail"],
		WrongIdentity:   stats[discoveryCluster+"ssl.fail_verify_san"],
		Unverified:      stats[discoveryCluster+"ssl.fail_verify_error"],
		Ended:           stats[discoveryCluster+"upstream_rq_completed"],
	}
}
