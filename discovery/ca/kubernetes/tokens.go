package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/ca/server"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

const (
	tokensFile   = "join-tokens.json"
	tokensSuffix = "-join-tokens" // of the Secret beside that of the authority: a person who makes tokens does not see the key
	mostTokens   = 900 << 10      // bytes; a Secret has a mebibyte
)

// TokensBeside is where the join tokens of an authority are.
func TokensBeside(authority At) At { return At{authority.Namespace, authority.Name + tokensSuffix} }

// Tokens are join tokens that replicas share by a Secret, as hashes. They are read from the API server each time: one
// that was revoked, or was used once, is known to each replica at once.
type Tokens struct {
	Connect func() (*kube.Client, error)
	In      At

	open func(*kube.Client) (secrets, error) // nil for those of the API server
	once sync.Once
	room chan struct{}

	mu     sync.Mutex
	client *kube.Client
}

// Create makes a join token for a service account, and returns its secret text too.
func (t *Tokens) Create(ctx context.Context, namespace, account string, ttl time.Duration, once bool, now time.Time) (made ca.Token, text string, err error) {
	err = t.change(ctx, func(all ca.Tokens) (_ ca.Tokens, err error) {
		all, made, text, err = all.Add(namespace, account, ttl, once, now)
		return all, err
	})
	return made, text, err
}

// List returns all join tokens.
func (t *Tokens) List(ctx context.Context) (all ca.Tokens, err error) {
	err = t.change(ctx, func(found ca.Tokens) (ca.Tokens, error) {
		all = found
		return nil, nil
	})
	return all, err
}

// Revoke revokes a join token. Certificates that it has brought live on, and are renewed.
func (t *Tokens) Revoke(ctx context.Context, id string) error {
	return t.change(ctx, func(all ca.Tokens) (ca.Tokens, error) { return all.Revoke(id) })
}

// Redeem returns the join token of a text that is shown with a key. Its use is stored before it returns. Its error is a
// *server.Busy where the API server does not answer.
func (t *Tokens) Redeem(ctx context.Context, text string, key ca.Key, now time.Time) (used ca.Token, err error) {
	t.once.Do(func() { t.room = make(chan struct{}, atOnce) })
	ctx, cancel := context.WithTimeout(ctx, reviewTime)
	defer cancel()
	busy := func(err error) error {
		return &server.Busy{Cause: "unreachable", After: comeAgain, Err: fmt.Errorf("ask the API server about a join token: %w", err)}
	}
	select {
	case t.room <- struct{}{}:
		defer func() { <-t.room }()
	case <-ctx.Done():
		return ca.Token{}, busy(ctx.Err())
	}
	var refused error
	err = t.change(ctx, func(all ca.Tokens) (ca.Tokens, error) {
		var next ca.Tokens
		if next, used, refused = all.Redeem(text, key, now); refused != nil || !all.Changes(used) {
			return nil, nil
		}
		return next, nil
	})
	switch {
	case err != nil:
		return ca.Token{}, busy(err)
	case refused != nil:
		return ca.Token{}, refused
	}
	return used, nil
}

// change stores what do makes of the tokens, unless that is nil.
func (t *Tokens) change(ctx context.Context, do func(ca.Tokens) (ca.Tokens, error)) error {
	client, err := t.connected()
	if err != nil {
		return err
	}
	at, err := open(client, t.In)
	if t.open != nil {
		at, err = t.open(client)
	}
	if err != nil {
		return err
	}
	err = change(ctx, at, t.In, true, func(d data) (data, error) {
		all, err := ca.ReadTokens(d[tokensFile])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.In, err)
		}
		next, err := do(all)
		if err != nil || next == nil {
			return nil, err
		}
		text, err := next.Bytes()
		if len(text) > mostTokens {
			return nil, fmt.Errorf("%s: %d bytes of join tokens, and at most %d fit: revoke some, or wait until some have ended", t.In, len(text), mostTokens)
		}
		return data{tokensFile: text}, err
	})
	if err != nil && !errors.Is(err, context.Canceled) { // else the caller has gone, which is no failure
		t.drop(client)
	}
	return err
}

func (t *Tokens) connected() (client *kube.Client, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.client == nil {
		t.client, err = t.Connect()
	}
	return t.client, err
}

// drop makes the next request connect again: credentials may have been replaced.
func (t *Tokens) drop(client *kube.Client) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.client == client {
		t.client = nil
	}
}

// Close closes the connections to the API server.
func (t *Tokens) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.client != nil {
		t.client.Close()
		t.client = nil
	}
}
