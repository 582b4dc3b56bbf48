package ads

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotlight/pilotlight/discovery/xds"
)

// A generation makes a view when the first of its streams asks, and holds it as long as the generation lives, which is
// until the next change but one. So that views of streams that are gone do not pile up meanwhile, a generation is
// followed by one of the same mesh that takes over what streams use. Proxies that lose their connection for a moment
// find their view again.
const (
	tidyEvery = 5 * time.Second
	maxSpare  = 256 // snapshots without a stream; they share nearly everything with those that have one
)

// tidyOften drops views that no stream uses any more until ctx is done.
func (s *Server) tidyOften(ctx context.Context) {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.tidy()
		}
	}
}

func (s *Server) tidy() {
	s.pushing.Lock()
	defer s.pushing.Unlock()
	if g := s.current.Load(); g != nil && g.hasSpare(s.readers()) {
		s.current.Store(g.again(s.names))
		s.pushers.start(s.all())
	}
	s.viewers.forget()
}

// readers are those of all streams.
func (s *Server) readers() map[reader]bool {
	out := map[reader]bool{}
	for _, st := range s.all() {
		st.mu.Lock()
		if st.protocol != nil {
			out[st.reader] = true
		}
		st.mu.Unlock()
	}
	return out
}

// hasSpare reports whether g, or what is kept of the one before, has made more than what is read.
func (g *generation) hasSpare(read map[reader]bool) bool {
	views, used := map[xds.Outbound]bool{}, map[xds.Outbound]bool{}
	for r := range read {
		if !views[r.Outbound] { // many readers have one, and to look up what it comes to takes a while
			views[r.Outbound], used[r.Outbound.In(g.mesh)] = true, true
		}
	}
	for _, b := range []*built{g.built, g.last.Load()} {
		if b == nil {
			continue
		}
		for _, v := range b.outbound.keys() {
			if !used[v] {
				return true
			}
		}
		spare := 0
		for _, r := range b.snapshots.keys() {
			if !read[r] {
				spare++
			}
		}
		if spare > maxSpare {
			return true
		}
	}
	return false
}

// again is g once more, with only those views that somebody asks for from now on; they are taken over as they are.
func (g *generation) again(in *interner) *generation {
	next := g.follow(g.mesh, g.change, in)
	next.number, next.work, next.span, next.same = g.number, g.work, g.span, true
	return next
}

// viewers bounds how many different views the streams of one identity may have made.
type viewers struct {
	mu    sync.Mutex
	views map[string]map[xds.Outbound]int // streams, by identity, then view
}

// enter counts a stream. A view that is made already costs nothing more.
func (v *viewers) enter(who string, view xds.Outbound, limit int) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	own := v.views[who]
	if _, known := own[view]; !known && limit > 0 && len(own) >= limit {
		return status.Errorf(codes.ResourceExhausted,
			"%s has %d different views already, by namespace, labels, locality and others of its nodes: at most --maxViewsPerIdentity", who, len(own))
	}
	if own == nil {
		own = map[xds.Outbound]int{}
		if v.views == nil {
			v.views = map[string]map[xds.Outbound]int{}
		}
		v.views[who] = own
	}
	own[view]++
	return nil
}

// leave ends what enter counted. The view is kept until forget, and so it still counts.
func (v *viewers) leave(who string, view xds.Outbound) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.views[who][view]--
}

// forget drops the views that no stream has.
func (v *viewers) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for who, own := range v.views {
		for view, streams := range own {
			if streams == 0 {
				delete(own, view)
			}
		}
		if len(own) == 0 {
			delete(v.views, who)
		}
	}
}

// who names an identity, of a client without a certificate its host.
func (id identity) who(peer string) string {
	if id != (identity{}) {
		return fmt.Sprintf("spiffe://%s/ns/%s/sa/%s", id.trustDomain, id.namespace, id.account)
	}
	if host, _, err := net.SplitHostPort(peer); err == nil {
		return host
	}
	return peer
}
