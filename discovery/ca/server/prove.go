package server

import (
	"context"
	"errors"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

// Prove returns the identity that a caller without a certificate proves by its token, for a stream of configuration: Istio's agent shows the token of its Pod
// there. A join token is for certificates alone, since with --once it belongs to one key. Its errors are *Refusal and *Busy. Each is logged, unless the
// caller has left before it could be judged.
func (d *Desk) Prove(ctx context.Context, c Caller) (ca.Identity, error) {
	id, err := d.prove(ctx, c)
	if err != nil && !left(ctx, err) {
		d.Log.Warn("token of a proxy refused", "peer", c.Address.String(), "cause", cause(err), "err", err)
	}
	return id, err
}

func (d *Desk) prove(ctx context.Context, c Caller) (ca.Identity, error) {
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
