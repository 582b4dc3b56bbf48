package ads

import (
	"context"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// A generation makes a view when a stream first needs it, and holds it until the next change but one. So that views of
// closed streams do not accumulate meanwhile, the generation is replaced by one of the same mesh that takes over only
// the views in use. Proxies that lose their connection for a moment find their view again.
const cleanUpInterval = 5 * time.Second

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
	if g := s.current.Load(); g != nil && g.HasUnused(s.readers()) {
		s.current.Store(g.renew(s.names))
		s.pushers.start(s.all())
	}
	s.viewers.forget()
}

// readers returns the readers of all streams.
func (s *Server) readers() map[content.Reader]bool {
	out := map[content.Reader]bool{}
	for _, st := range s.all() {
		st.mu.Lock()
		if st.identified() {
			out[st.reader] = true
		}
		st.mu.Unlock()
	}
	return out
}
