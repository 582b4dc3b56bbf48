package ads

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotlight/pilotlight/discovery/xds"
)

// A generation makes a view when a stream first needs it, and holds it until the next change but one. So that views of
// closed streams do not accumulate meanwhile, the generation is replaced by one of the same mesh that takes over only
// the views in use. Proxies that lose their connection for a moment find their view again.
const (
	cleanUpInterval = 5 * time.Second
	maxUnused       = 256 // snapshots without a stream; they share nearly everything with those that have one
)

// runCleanUp drops views that no stream uses any more until ctx is done.
func (s *Server) runCleanUp(ctx context.Context) {
	tick := time.NewTicker(cleanUpInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.cleanUp()
		}
	}
}

// cleanUp drops the views of the current generation that no stream uses.
func (s *Server) cleanUp() {
	s.pushing.Lock()
	defer s.pushing.Unlock()
	if g := s.current.Load(); g != nil && g.hasUnused(s.readers()) {
		s.current.Store(g.renew(s.names))
		s.pushers.start(s.all())
	}
	s.viewers.forget()
}

// readers returns the readers of all streams.
func (s *Server) readers() map[reader]bool {
	out := map[reader]bool{}
	for _, st := range s.all() {
		st.mu.Lock()
		if st.identified() {
			out[st.reader] = true
		}
		st.mu.Unlock()
	}
	return out
}

// hasUnused reports whether g, or the kept part of the generation before, holds a view that no reader uses, or more
// than maxUnused snapshots that no reader uses.
func (g *generation) hasUnused(read map[reader]bool) bool {
	views, used := map[xds.Outbound]bool{}, map[xds.Outbound]bool{}
	for r := range read {
		if !views[r.Outbound] { // many readers share one, and to find the view of the mesh for it costs time
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
		unused := 0
		for _, r := range b.snapshots.keys() {
			if !read[r] {
				unused++
			}
		}
		if unused > maxUnused {
			return true
		}
	}
	return false
}

// renew returns a generation of the same mesh. It takes a view from g, unchanged, when a stream requests it.
func (g *generation) renew(in *interner) *generation {
	next := g.follow(g.mesh, g.change, in)
	next.number, next.work, next.span, next.same = g.number, g.work, g.span, true
	return next
}

// viewers limits how many different views the streams of one identity may need.
type viewers struct {
	mu    sync.Mutex
	views map[string]map[xds.Outbound]int // streams, by identity, then view
}

// enter counts a stream. A view that the identity has already is always allowed.
func (v *viewers) enter(owner string, view xds.Outbound, limit int) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	own := v.views[owner]
	if _, known := own[view]; !known && limit > 0 && len(own) >= limit {
		return status.Errorf(codes.ResourceExhausted,
			"%s has %d different views already, by namespace, labels, locality and others of its nodes: at most --maxViewsPerIdentity", owner, len(own))
	}
	if own == nil {
		own = map[xds.Outbound]int{}
		if v.views == nil {
			v.views = map[string]map[xds.Outbound]int{}
		}
		v.views[owner] = own
	}
	own[view]++
	return nil
}

// leave removes a stream that enter counted. The view is kept until forget, and still counts until then.
func (v *viewers) leave(owner string, view xds.Outbound) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.views[owner][view]--
}

// forget drops the views that no stream has.
func (v *viewers) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for owner, own := range v.views {
		for view, streams := range own {
			if streams == 0 {
				delete(own, view)
			}
		}
		if len(own) == 0 {
			delete(v.views, owner)
		}
	}
}

// owner returns the name of an identity, or the host of a client without a certificate.
func (id identity) owner(peer string) string {
	if id != (identity{}) {
		return id.String()
	}
	if host, _, err := net.SplitHostPort(peer); err == nil {
		return host
	}
	return peer
}
