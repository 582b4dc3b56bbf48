package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/internal/connlimit"
)

// Limits of callers.
const (
	inAll, inAllAtOnce           = 500, 1000 // certificates a second
	ofIdentity, ofIdentityAtOnce = 20, 100   // likewise
	refusals, refusalsAtOnce     = 1, 30     // of an address, a second
	remembered                   = 10000     // identities, and addresses
	unready                      = time.Second
	longestQueue                 = time.Minute // that a caller who is too many is told to wait
)

// Caller is what a caller shows.
type Caller struct {
	Chains  [][]*x509.Certificate // of its certificate, verified by TLS; none without one
	Token   string                // of the header Authorization, without "Bearer "; "" for none
	Address netip.Addr
	Agent   bool // it is one, or a command: its certificate is bound to such connections
}

// Issued is a certificate with what belongs to it.
type Issued struct {
	ca.Leaf
	Identity ca.Identity
	Roots    []byte    // PEM
	At       time.Time // when it was signed
}

// Redeemer knows join tokens. Its error is a *Busy where it cannot know, and else the reason to refuse.
type Redeemer interface {
	Redeem(ctx context.Context, text string, key ca.Key, now time.Time) (ca.Token, error)
}

// Authenticator knows tokens of another kind. Its error is ErrForeign for a token that is none of its own, a *Busy
// where it cannot know, and else the reason to refuse.
type Authenticator interface {
	Identify(ctx context.Context, token, trustDomain string) (ca.Identity, error)
}

// Config is the configuration of a Server.
type Config struct {
	Authority    func() *ca.Authority // nil until it is known
	Terms        ca.Terms
	JoinTokens   Redeemer
	Further      []Authenticator // asked in this order
	TrustDomains func() []string // of the mesh, its own first; none before it is known
	Rate         Rate            // of certificates in all; zero for what the two processors of a small discovery sign beside their work
	Log          *slog.Logger
	Now          func() time.Time
}

// Rate bounds how often something happens: every so often, and some times at once.
type Rate struct {
	Every  time.Duration
	AtOnce int
}

// Server signs certificates.
type Server struct {
	Config
	metrics metrics

	mu         sync.Mutex
	all        *rateLimiter // has one key
	turn       time.Time    // the last one that was given to a caller who was too many
	identities *rateLimiter // by identity
	refusals   *rateLimiter // refusals by address
	issued     *issuedCertificates
}

// Issued returns how many certificates live that were signed here, as far as they were not renewed, and how many of
// them came with roots.
func (d *Server) Issued(roots []byte) (live, with int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.issued.count(roots, d.Now())
}

// New returns a Server.
func New(c Config) *Server {
	if c.Rate == (Rate{}) {
		c.Rate = Rate{time.Second / inAll, inAllAtOnce}
	}
	return &Server{
		Config: c, metrics: newMetrics(), all: newRateLimiter(c.Rate, 1),
		identities: newRateLimiter(Rate{time.Second / ofIdentity, ofIdentityAtOnce}, remembered),
		refusals:   newRateLimiter(Rate{time.Second / refusals, refusalsAtOnce}, remembered),
		issued:     &issuedCertificates{map[digest]issuedCertificate{}},
	}
}

// Issue signs the key of a request for the identity of its caller. Its errors are *Refusal, *Busy and *Malformed. Each
// is counted and logged, unless the caller has left before it could be judged.
func (d *Server) Issue(ctx context.Context, c Caller, request []byte, ttl time.Duration) (Issued, error) {
	issued, by, err := d.issue(ctx, c, request, ttl)
	if left(ctx, err) {
		return Issued{}, err
	}
	if err != nil {
		d.metrics.refused.WithLabelValues(cause(err)).Inc()
		d.Log.Warn("certificate refused", "peer", c.Address.String(), "cause", cause(err), "err", err)
		return Issued{}, err
	}
	d.metrics.issued.WithLabelValues(by).Inc()
	d.Log.Info("certificate issued", "identity", issued.Identity.String(), "peer", c.Address.String(), "proof", by, "until", issued.NotAfter, "notes", issued.Notes)
	return issued, nil
}

// left reports whether an error is that a caller has left: an API server that was being asked is not away.
func left(ctx context.Context, err error) bool {
	return errors.Is(ctx.Err(), context.Canceled) && errors.As(err, new(*Busy))
}

func (d *Server) issue(ctx context.Context, c Caller, request []byte, ttl time.Duration) (Issued, string, error) {
	now, domains, authority := d.Now(), d.TrustDomains(), d.Authority()
	switch {
	case authority == nil:
		return Issued{}, "", &Busy{"not-ready", unready, errors.New("the authority is not known yet")}
	case len(domains) == 0:
		return Issued{}, "", &Busy{"not-ready", unready, errors.New("the trust domain of the mesh is not known yet")}
	}
	key, err := ca.ReadRequest(request)
	if err != nil {
		return Issued{}, "", &Malformed{err}
	}
	id, by, err := d.identify(ctx, c, authority, key, domains, now)
	if err != nil {
		return Issued{}, "", err
	}
	if err := d.admit(id, now); err != nil {
		return Issued{}, "", err
	}
	terms := d.Terms
	terms.Bound = c.Agent
	leaf, err := authority.Sign(key, id, ttl, terms, now)
	if err != nil {
		return Issued{}, "", &Busy{"authority", time.Minute, err}
	}
	var shown *x509.Certificate
	if len(c.Chains) > 0 {
		shown = c.Chains[0][0]
	}
	d.mu.Lock()
	d.issued.signed(shown, leaf, authority.Roots(), now)
	d.mu.Unlock()
	return Issued{Leaf: leaf, Identity: id, Roots: authority.Roots(), At: now}, by, nil
}

// identify returns the identity that a caller has proved, and by what.
func (d *Server) identify(ctx context.Context, c Caller, authority *ca.Authority, key ca.Key, domains []string, now time.Time) (ca.Identity, string, error) {
	own := slices.IndexFunc(c.Chains, authority.Trusts)
	switch {
	case own >= 0:
		id, err := ofCertificate(c.Chains[own][0], domains)
		return id, "certificate", err
	case c.Token == "" && len(c.Chains) > 0:
		return ca.Identity{}, "", refuse("certificate", "the certificate of %q is of another authority", c.Chains[0][0].Subject)
	case c.Token == "":
		return ca.Identity{}, "", refuse("no-proof", "the caller shows neither a certificate nor a token")
	}
	by := "token"
	id, err := d.countRefusals(c.Address, now, func() (ca.Identity, error) {
		if ca.IsJoinToken(c.Token) {
			by = "join-token"
			return d.ofJoinToken(ctx, c.Token, key, domains[0], now)
		}
		return d.ofToken(ctx, c.Token, domains[0])
	})
	return id, by, err
}

// countRefusals reads a token unless too many of the address were refused, and counts it if it is refused.
func (d *Server) countRefusals(address netip.Addr, now time.Time, read func() (ca.Identity, error)) (ca.Identity, error) {
	source := connlimit.SourceOf(address).String()
	if err := d.waitOf(d.refusals, source, now, "too many refusals of the address"); err != nil {
		return ca.Identity{}, err
	}
	id, err := read()
	if refused := new(*Refusal); errors.As(err, refused) {
		d.mu.Lock()
		d.refusals.take(source, now)
		d.mu.Unlock()
	}
	return id, err
}

// ofCertificate returns the identity of a certificate of this authority, in the trust domain that the mesh has now.
func ofCertificate(c *x509.Certificate, domains []string) (ca.Identity, error) {
	id, err := ca.IdentityOf(c)
	if err != nil {
		return ca.Identity{}, refuse("certificate", "%w", err)
	}
	if !slices.Contains(domains, id.TrustDomain) {
		return ca.Identity{}, refuse("certificate", "the certificate is for %s, and the mesh has the trust domains %q", id, domains)
	}
	id.TrustDomain = domains[0]
	return id, nil
}

func (d *Server) ofJoinToken(ctx context.Context, token string, key ca.Key, domain string, now time.Time) (ca.Identity, error) {
	used, err := d.JoinTokens.Redeem(ctx, token, key, now)
	if busy := new(*Busy); errors.As(err, busy) {
		return ca.Identity{}, err
	} else if err != nil {
		return ca.Identity{}, refuse("join-token", "%w", err)
	}
	id, err := ca.NewIdentity(domain, used.Namespace, used.ServiceAccount)
	if err != nil {
		return ca.Identity{}, refuse("join-token", "the join token %s: %w", used.ID, err)
	}
	return id, nil
}

// ofToken returns the identity of a token of a service account or of an issuer.
func (d *Server) ofToken(ctx context.Context, token, domain string) (ca.Identity, error) {
	var why []string
	for _, a := range d.Further {
		id, err := a.Identify(ctx, token, domain)
		var busy *Busy
		switch {
		case err == nil:
			return id, nil
		case errors.Is(err, ErrForeign):
			why = append(why, err.Error())
		case errors.As(err, &busy):
			return ca.Identity{}, err
		default:
			return ca.Identity{}, refuse("token", "%w", err)
		}
	}
	return ca.Identity{}, refuse("token", "the token is none that is known here: %q", why)
}

// admit bounds certificates, of an identity and in all.
func (d *Server) admit(id ca.Identity, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if wait := d.identities.take(id.String(), now); wait > 0 { // also what is refused below: else one identity would lengthen the queue
		return &Busy{"rate", wait, fmt.Errorf("too many certificates of %s", id)}
	}
	if wait := d.all.wait("", now); wait > 0 {
		return &Busy{"rate", d.queue(now.Add(wait), now), errors.New("too many certificates")}
	}
	d.all.take("", now)
	return nil
}

// queue gives a caller who is too many a turn of its own: if all of a storm came again at the same second, each would
// open a connection every second until it is served.
func (d *Server) queue(first, now time.Time) time.Duration {
	if d.turn.Before(first) {
		d.turn = first
	}
	if d.turn = d.turn.Add(d.all.Every); d.turn.Sub(now) > longestQueue {
		d.turn = now.Add(longestQueue)
	}
	return d.turn.Sub(now)
}

func (d *Server) waitOf(p *rateLimiter, key string, now time.Time, why string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if wait := p.wait(key, now); wait > 0 {
		return &Busy{"rate", wait, errors.New(why)}
	}
	return nil
}

// Prove returns the identity that a caller without a certificate proves by its token, for a stream of configuration:
// Istio's agent shows the token of its Pod there. A join token is for certificates alone, since with --once it belongs
// to one key. Its errors are *Refusal and *Busy. Each is logged, unless the caller has left before it could be judged.
func (d *Server) Prove(ctx context.Context, c Caller) (ca.Identity, error) {
	id, err := d.prove(ctx, c)
	if err != nil && !left(ctx, err) {
		d.Log.Warn("token of a proxy refused", "peer", c.Address.String(), "cause", cause(err), "err", err)
	}
	return id, err
}

func (d *Server) prove(ctx context.Context, c Caller) (ca.Identity, error) {
	now, domains := d.Now(), d.TrustDomains()
	if len(domains) == 0 {
		return ca.Identity{}, &Busy{"not-ready", unready, errors.New("the trust domain of the mesh is not known yet")}
	}
	return d.countRefusals(c.Address, now, func() (ca.Identity, error) {
		if ca.IsJoinToken(c.Token) {
			return ca.Identity{}, refuse("join-token", "a join token is for certificates alone: want the certificate of the proxy at its stream")
		}
		return d.ofToken(ctx, c.Token, domains[0])
	})
}

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
