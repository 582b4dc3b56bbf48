package client

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/pilotlight/pilotlight/discovery/acme"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/secret"
)

// latest holds the newest groups of a source, by key, for its Run.
type latest[G any] struct {
	mu     sync.Mutex
	known  bool // there is something to send
	groups map[string]G
	news   chan struct{}
}

// begin says that the groups are known.
func (l *latest[G]) begin() {
	l.mu.Lock()
	was := l.known
	l.known = true
	l.mu.Unlock()
	if !was {
		l.change(func(map[string]G) {})
	}
}

func newLatest[G any]() latest[G] {
	return latest[G]{groups: map[string]G{}, news: make(chan struct{}, 1)}
}

// change changes the groups.
func (l *latest[G]) change(do func(map[string]G)) {
	l.mu.Lock()
	do(l.groups)
	l.mu.Unlock()
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// all returns the groups, nil while they are not known.
func (l *latest[G]) all() map[string]G {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known {
		return nil
	}
	return maps.Clone(l.groups)
}

// follow calls send with what has changed since the last call, at first with all, until ctx is done.
func (l *latest[G]) follow(ctx context.Context, same func(a, b G) bool, send func(map[string]G)) {
	var sent map[string]G
	for {
		now, out := l.all(), map[string]G{}
		for key, g := range now {
			if was, is := sent[key]; !is || !same(was, g) {
				out[key] = g
			}
		}
		for key := range sent {
			if _, still := now[key]; !still {
				out[key] = *new(G)
			}
		}
		if now != nil && (sent == nil || len(out) > 0) {
			send(out)
		}
		sent = now
		select {
		case <-ctx.Done():
			return
		case <-l.news:
		}
	}
}

// challenges is the source of the answers to challenges. It implements discovery.Source.
type challenges struct{ latest[model.Group] }

func newChallenges() *challenges { return &challenges{newLatest[model.Group]()} }

// OpenRegistry says that no host of another source waits for this one: it has no hosts.
func (c *challenges) OpenRegistry() {}

// Run sends them until ctx is done.
func (c *challenges) Run(ctx context.Context, updates chan<- model.Update) error {
	c.follow(ctx, model.Group.Same, func(groups map[string]model.Group) {
		select {
		case updates <- model.Update{Groups: groups, Synced: true, Certain: true}:
		case <-ctx.Done():
		}
	})
	return nil
}

// set has gateways of namespaces answer questions, and no others.
func (c *challenges) set(asks map[string][]acme.Question) {
	c.change(func(all map[string]model.Group) {
		clear(all)
		for namespace, questions := range asks {
			for _, q := range questions {
				object := model.Challenge(namespace, q.Host, q.Token, q.Answer)
				all[object.Key()] = model.Group{Objects: []*model.Object{object}}
			}
		}
	})
}

// secrets is the source of the certificates. It implements secret.Source.
type secrets struct {
	latest[secret.Group]
	accounts map[string][]string
}

func newSecrets(accounts map[string][]string) *secrets {
	return &secrets{newLatest[secret.Group](), accounts}
}

// set replaces the certificates, by the names under which they are served.
func (s *secrets) set(chosen map[secret.Name]acme.Record) {
	s.change(func(all map[string]secret.Group) {
		clear(all)
		for name, r := range chosen {
			if accounts := s.accounts[name.Namespace]; len(accounts) > 0 {
				all[name.String()] = secret.Group{Secrets: map[secret.Name]secret.Secret{
					name: {Certificate: r.Chain, Key: r.Key, Accounts: accounts, From: r.NotBefore, Until: r.NotAfter},
				}}
			}
		}
	})
}

// uses reports whether the certificate of a record is served.
func (s *secrets) uses(r acme.Record) bool {
	all := s.all()
	return slices.ContainsFunc(r.Secrets, func(name string) bool {
		of := secret.Name{Namespace: r.Namespace, Name: name}
		return len(r.Chain) > 0 && string(all[of.String()].Secrets[of].Certificate) == string(r.Chain)
	})
}

// Run sends them until ctx is done.
func (s *secrets) Run(ctx context.Context, updates chan<- secret.Update) error {
	s.follow(ctx, secret.Group.Same, func(groups map[string]secret.Group) {
		select {
		case updates <- secret.Update{Groups: groups, Synced: true}:
		case <-ctx.Done():
		}
	})
	return nil
}
