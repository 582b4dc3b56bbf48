package ads

import (
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
)

// ReleaseOfProxies is the name under which clients that would lose most of their clusters are released, as if it were a source.
const ReleaseOfProxies = "proxies"

// world returns what sessions know of a generation besides its resources.
func (h *hub) world(g *generation) protocol.World {
	return protocol.World{Lacks: len(g.Mesh.Lacks) > 0, Forgone: g.Mesh.Forgone, Wipe: h.limits.Wipe}
}

// tellWait logs that a client would lose most of its clusters, at most once in shedEvery: a thousand may come back at once. Held:
// st.mu.
func (st *stream) tellWait(now time.Time) {
	wait := st.session.Wait()
	was := st.waits
	if st.waits = wait.Waits() && !wait.Until.IsZero(); !st.waits || was {
		return
	}
	if last := st.hub.wipeLogged.Load(); last == nil || now.Sub(*last) > shedEvery {
		st.hub.wipeLogged.Store(&now)
		st.log.Error("most clusters of a proxy that came back are gone at once: it keeps what it has, for it may be an accident", "node", st.node,
			"lost", wait.Lost.Of("clusters"), "until", wait.Until, "sooner", "discovery release "+ReleaseOfProxies)
	}
}
