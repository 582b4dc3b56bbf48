package proxy

import (
	"fmt"
	"log/slog"
	"strconv"

	"github.com/pilotlight/pilotlight/agent/cgroup"
	"github.com/pilotlight/pilotlight/agent/identity"
)

// limits are the resources that Envoy may use. They must be the same for every epoch, so they are computed once.
type limits struct {
	workers int
	memory  uint64 // bytes, 0 for no limit
	derived []identity.Derived
}

// limitsOf takes the given limits, else those of PROXY_CONFIG, else those of the control group.
func limitsOf(c Config, given identity.ProxyConfig, l cgroup.Limits, processors int) limits {
	out := limits{workers: c.Envoy.Concurrency, memory: c.Params.MemoryLimit}
	if out.workers == 0 {
		how := fmt.Sprintf("%d processors, CPU limit %g", processors, l.CPUs)
		out.workers = l.Workers(processors)
		if n, said := given.Workers(processors); said {
			out.workers, how = n, "concurrency of "+identity.ProxyConfigVariable
		}
		out.derived = append(out.derived, identity.Derived{Setting: "concurrency", Value: strconv.Itoa(out.workers), How: how})
	}
	if out.memory == 0 && l.Memory != 0 {
		out.memory = uint64(l.Memory / 10 * 9)
		how := "nine tenths of the control group's limit, which the agent shares"
		out.derived = append(out.derived, identity.Derived{Setting: "memoryLimit", Value: strconv.FormatUint(out.memory, 10), How: how})
	}
	return out
}

// warnUnread logs the parts of PROXY_CONFIG that have no effect.
func warnUnread(log *slog.Logger, c identity.ProxyConfig) {
	keys, names := c.Unread()
	if len(keys) > 0 {
		log.Warn("keys of "+identity.ProxyConfigVariable+" are not read, use the agent's flags", "keys", keys)
	}
	if len(names) > 0 {
		log.Warn("proxyMetadata of "+identity.ProxyConfigVariable+" is read for "+identity.MetaPrefix+" names only, set others in the environment", "names", names)
	}
}
