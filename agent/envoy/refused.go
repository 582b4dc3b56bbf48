package envoy

import (
	"context"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/agent/health"
)

// subscribed are the types in which each resource has its own subscription, and so its own counters.
var subscribed = []struct{ name, typeURL, counters string }{
	{"RDS", "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", `^http\..+\.rds\..+\.`},
	{"EDS", "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment", `^cluster\..+\.`},
	{"SDS", "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", `(^|.+\.)sds\..+\.`},
}

// refused lists the types with a rejected resource whose subscription has neither accepted an update since, nor ended.
// It queries Envoy only for types with a rejection in the log.
func (c *process) refused(ctx context.Context) (out []health.Refused) {
	for _, s := range subscribed {
		last := c.output.lastRejection(s.typeURL)
		if last.At.IsZero() {
			continue
		}
		stats, err := c.admin.Stats(ctx, s.counters+`update_(rejected|time)$`)
		if err == nil && c.open(stats, last.At) {
			out = append(out, health.Refused{Type: s.name, Rejection: last.Rejection})
		}
	}
	return out
}

// open reports whether some subscription has accepted nothing since its rejection. Only the time of the last rejection
// in the log is kept, so a subscription that has recovered is remembered with its count of rejections.
func (c *process) open(stats map[string]int64, rejected time.Time) (open bool) {
	if c.mendedAt == nil {
		c.mendedAt = map[string]int64{}
	}
	for name, count := range stats {
		of, found := strings.CutSuffix(name, ".update_rejected")
		switch {
		case !found || count == 0 || c.mendedAt[of] == count:
		case stats[of+".update_time"] > rejected.UnixMilli():
			c.mendedAt[of] = count
		default:
			open = true
		}
	}
	return open
}
