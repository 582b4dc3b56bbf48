package envoy

import "context"

// Drain says how Envoy is to close its listeners. The zero value closes all at once: requests in flight are answered,
// each answer closes its connection.
type Drain struct {
	InboundOnly bool // those with traffic_direction INBOUND
	Graceful    bool // accept on for --drain-time-s, each answer closing its connection, then close
	SkipExit    bool // with Graceful: never close
}

// DrainListeners starts a drain. Envoy's state stays LIVE and the process stays.
func (a *Admin) DrainListeners(ctx context.Context, d Drain) error { return a.post(ctx, d.path()) }

func (d Drain) path() string {
	path, separator := "/drain_listeners", "?"
	for _, option := range []struct {
		on   bool
		name string
	}{{d.InboundOnly, "inboundonly"}, {d.Graceful, "graceful"}, {d.SkipExit, "skip_exit"}} {
		if option.on {
			path += separator + option.name
			separator = "&"
		}
	}
	return path
}
