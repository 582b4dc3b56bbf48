package ads

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/secret"
)

// hub is what all streams of a server share.
type hub struct {
	limits  Limits
	log     *slog.Logger
	names   *content.Interner
	current atomic.Pointer[generation]    // nil before the first Push
	vault   atomic.Pointer[content.Vault] // nil for none
	secrets atomic.Pointer[secret.Set]    // those in the vault
	viewers viewers
	objects objects
	history history
	metrics *metrics
	onNews  func()                              // see OnNews
	changed func()                              // see OnChange
	lacking func(namespace, name string) string // see Lacking

	streamed atomic.Int64 // streams that were opened

	wipeLogged atomic.Pointer[time.Time] // when a client that would lose most of its clusters was logged last
}

// sending counts responses that are about to be sent. Responses that do not follow from the change that made g are not
// counted in the time that the change took.
func (h *hub) sending(g *generation, responses []protocol.Response, follows bool, now time.Time) {
	h.history.sent(g.number, responses)
	since := g.change.Since
	if !follows {
		since = time.Time{}
	}
	h.metrics.sent(responses, since, now)
}

// reached records that a proxy has all of a generation, or has left.
func (h *hub) reached(from, to int64, now time.Time) {
	for _, took := range h.history.reached(from, to, now) {
		h.metrics.convergence.Observe(took.Seconds())
	}
}
