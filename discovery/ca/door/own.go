package door

import (
	"crypto/tls"
	"slices"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

// Own is the certificate of the server itself. It is in memory alone, made when it is needed, and again at half of its
// life, or when its identity has changed.
type Own struct {
	Authority *ca.Authority
	Names     []string
	Identity  func() ca.Identity // of the server
	Life      time.Duration
	Now       func() time.Time

	mu   sync.Mutex
	pair *tls.Certificate
	of   ca.Identity
	due  time.Time
}

// Certificate returns the certificate.
func (o *Own) Certificate() (*tls.Certificate, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, id := o.Now(), o.Identity()
	if o.pair != nil && o.of == id && now.Before(o.due) {
		return o.pair, nil
	}
	pair, err := o.Authority.Pair(slices.Clone(o.Names), id, o.Life, now)
	if err != nil {
		return nil, err
	}
	o.pair, o.of, o.due = pair, id, now.Add(pair.Leaf.NotAfter.Sub(now)/2)
	return pair, nil
}
