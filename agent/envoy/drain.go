package envoy

import "context"

// Drain describes how Envoy is to close its listeners. The zero value closes all of them at once: requests in flight
// are answered, and each answer closes its connection.
type Drain struct {
	InboundOnly bool // those with traffic_direction INBOUND
	Graceful    bool // go on accepting for --drain-time-s, close each connection with its answer, then close the listeners
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
