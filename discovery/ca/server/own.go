package server

import (
	"crypto/tls"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

// Own is the certificate of the server itself. It is in memory alone, made when it is needed, and again at half of its
// life, or when its identity or the authority has changed.
type Own struct {
	Authority func() *ca.Authority // nil until it is known
	Names     []string
	Identity  func() ca.Identity // of the server
	Life      time.Duration
	Now       func() time.Time

	mu   sync.Mutex
	pair *tls.Certificate
	of   ca.Identity
	by   *ca.Authority
	due  time.Time
}

// Certificate returns the certificate.
func (o *Own) Certificate() (*tls.Certificate, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, id := o.Now(), o.Identity()
	authority := o.Authority()
	if o.pair != nil && o.of == id && o.by == authority && now.Before(o.due) {
		return o.pair, nil
	}
	if authority == nil {
		return nil, errors.New("the authority is not known yet, so there is no certificate of this server")
	}
	pair, err := authority.Pair(slices.Clone(o.Names), id, o.Life, now)
	if err != nil {
		return nil, err
	}
	o.pair, o.of, o.by, o.due = pair, id, authority, now.Add(pair.Leaf.NotAfter.Sub(now)/2)
	return pair, nil
}
