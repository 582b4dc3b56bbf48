package page

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"github.com/pilotlight/pilotlight/internal/connlimit"
)

// readers are the open streams of events, the oldest first. A new one is always let in: where there are too many, the oldest of
// the source with the most of them ends, as package connlimit says. Its browser opens another one a second later.
type readers struct {
	mu   sync.Mutex
	open []*browser
}

type browser struct {
	source netip.Prefix
	leave  context.CancelFunc
}

// enter adds a reader from an address, host:port. The context is done when it has to leave.
func (r *readers) enter(ctx context.Context, address string) (*browser, context.Context) {
	from, _ := netip.ParseAddrPort(address) // of a Unix socket there is none: they are one source
	next := &browser{source: connlimit.SourceOf(from.Addr().Unmap())}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.open) >= maxReaders {
		guests := make([]connlimit.Guest, 0, len(r.open)+1)
		for _, o := range append(slices.Clone(r.open), next) {
			guests = append(guests, connlimit.Guest{Source: o.source, Served: true})
		}
		i := connlimit.Victim(guests, connlimit.Ends)
		r.open[i].leave()
		r.open = slices.Delete(r.open, i, i+1)
	}
	ctx, next.leave = context.WithCancel(ctx)
	r.open = append(r.open, next)
	return next, ctx
}

// exit removes a reader that has ended.
func (r *readers) exit(who *browser) {
	who.leave()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = slices.DeleteFunc(r.open, func(o *browser) bool { return o == who })
}
