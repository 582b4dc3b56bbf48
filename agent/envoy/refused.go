package envoy

import (
	"context"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/agent/health"
)

// subscribed are the types of which each resource has a subscription, and with it counters, of its own.
var subscribed = []struct{ name, typeURL, counters string }{
	{"RDS", "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", `^http\..+\.rds\..+\.`},
	{"EDS", "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment", `^cluster\..+\.`},
	{"SDS", "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", `(^|.+\.)sds\..+\.`},
}

// refused lists the types of which Envoy has rejected something that it has neither accepted nor been told to forget since.
// It asks only where the log tells of a rejection.
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

// open reports whether a subscription has not accepted anything since its rejection. The log tells only of the last one, so
// what was mended is remembered with its count.
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
