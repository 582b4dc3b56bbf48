package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/discovery/acme"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/secret"
)

// Config is what a Client needs.
type Config struct {
	Issuers  Issuers
	Inside   bool                // ask issuers at addresses that are not of the Internet too
	Store    Store               // of keys, certificates and the state of orders; other processes that have it too are Replicas
	Accounts map[string][]string // service accounts of gateways that get certificates, by namespace

	Mesh    func() *model.Mesh // nil before the first one
	Proxies func() []model.Proxy
	// Lagging returns those of the streams that have not accepted the answer to a challenge, with their nodes.
	Lagging func(streams []int64, namespace, token string) map[int64]string
	Changed func() // is called when Notes has others
	Log     *slog.Logger
}

// Times of the loop, and how much is under way.
const (
	maxTries  = 8                      // half of them for one namespace of Gateways
	lookAgain = 5 * time.Second        // at what is connected
	lookOften = 300 * time.Millisecond // while replicas tell what their gateways answer

	forgetPause = time.Hour // for which an order or a number of failures that no gateway needs is kept: they may not be connected yet
)

// Client gets certificates, and serves them. New makes one.
type Client struct {
	config     Config
	accounts   map[string]*account // by issuer
	store      Store
	replicas   Replicas // nil for none
	log        *slog.Logger
	random     func() float64
	challenges *challenges
	secrets    *secrets
	counts     *counts
	news       chan struct{}
	read       bool // a store without replicas was read since this process leads; before, another process may have written. Of Run alone

	mu      sync.Mutex
	records map[string]acme.Record  // by key
	sets    []acme.Set              // wanted; nil while that is not known
	broken  map[string]acme.Broken  // records that cannot be read
	under   map[string]bool         // keys of sets with a try of this process
	unsaved map[string]string       // keys of records that are to be stored, and why they could not be
	failed  string                  // the last of them that could not
	leads   bool                    // this process asks
	fault   string                  // of the store
	crowd   bool                    // there are more kinds of gateways than this replica reports
	late    map[int64]laggingStream // streams of gateways that have not accepted an answer
	notes   []model.Note            // about what cannot be asked for
}

// New returns a Client with what an earlier run has kept.
func New(c Config) (*Client, error) {
	k := &Client{
		config: c, accounts: map[string]*account{}, store: c.Store, log: c.Log, random: rand.Float64,
		challenges: newChallenges(), secrets: newSecrets(c.Accounts), counts: newCounts(), news: make(chan struct{}, 1),
		records: map[string]acme.Record{}, under: map[string]bool{}, unsaved: map[string]string{}, late: map[int64]laggingStream{},
	}
	k.replicas, _ = c.Store.(Replicas)
	for _, i := range c.Issuers {
		a, err := newAccount(i, k.store, c.Inside)
		if err != nil {
			return nil, err
		}
		k.accounts[i.Name] = a
	}
	k.load(time.Now())
	return k, nil
}

// Challenges returns the source of the answers to challenges.
func (c *Client) Challenges() *challenges { return c.challenges }

// Secrets returns the source of the certificates.
func (c *Client) Secrets() secret.Source { return c.secrets }

// Judge has the Client look at a new mesh. It implements discovery.Judge.
func (c *Client) Judge(*model.Mesh) { c.Look() }

// Look has the Client look at what is connected.
func (c *Client) Look() {
	select {
	case c.news <- struct{}{}:
	default: // it will
	}
}

// result is the end of a try.
type result struct {
	record acme.Record
	err    error
	term   context.Context
}

// Run asks for what is due until ctx is done.
func (c *Client) Run(ctx context.Context) error {
	defer c.store.Close()
	var tries sync.WaitGroup
	defer tries.Wait()
	results := make(chan result, maxTries)
	timer, said := time.NewTimer(0), ""
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.news:
		case <-timer.C:
		case end := <-results:
			c.learn(end)
		}
		if ctx.Err() == nil {
			c.turn(ctx, func(term context.Context, r acme.Record) {
				tries.Go(func() {
					done, err := c.try(term, r)
					results <- result{done, err, term} // there is room for each
				})
			})
		}
		if now := c.said(); now != said {
			said = now
			c.config.Changed()
		}
		timer.Reset(c.again())
	}
}

// turn looks at what is stored and what is needed, stores what has changed, and begins what is due.
func (c *Client) turn(ctx context.Context, begin func(term context.Context, r acme.Record)) {
	now := time.Now()
	term, leads := c.term(ctx)
	if c.replicas == nil && !leads || !c.read && !c.load(now) {
		return
	}
	c.want(now)
	if leads {
		c.write(term, now)
		for _, r := range c.due(now) {
			begin(term, r)
		}
	}
	c.report(now)
}

// again returns when to look again.
func (c *Client) again() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.replicas != nil && len(acme.Asks(c.records, c.sets)) > 0 {
		return lookOften
	}
	return lookAgain
}

// want sets what gateways need, those of other replicas too.
func (c *Client) want(now time.Time) {
	m := c.config.Mesh()
	if m == nil {
		return
	}
	connected := c.config.Proxies()
	c.forgetLate(connected)
	if c.replicas != nil {
		connected = append(connected, acme.Elsewhere(c.replicas.Heard(), c.replicas.Name(), now)...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := map[string]bool{}
	for key, r := range c.records {
		known[key] = len(r.Chain) > 0 || r.Order != ""
	}
	c.sets, c.notes = acme.Wanted(m, connected, c.namespaces(), c.config.Issuers.Names(), known)
	if c.sets == nil {
		c.sets = []acme.Set{} // it is known that there are none
	}
	for _, s := range c.sets {
		key := s.Key()
		r, is := c.records[key]
		if !is {
			r = acme.Record{Namespace: s.Namespace, Issuer: s.Issuer, Hosts: s.Hosts}
			if broken, is := c.broken[s.ID()]; is {
				r.Fault, r.Next = acme.Clip(broken.Err.Error()), broken.At.Add(brokenPause)
			}
		}
		if !slices.Equal(r.Secrets, s.Secrets) && len(r.Chain) > 0 && c.leads {
			c.unsaved[key] = ""
		}
		r.Secrets, r.Unneeded = s.Secrets, time.Time{}
		c.records[key] = r
	}
	c.serveLocked()
}

func (c *Client) namespaces() []string { return slices.Sorted(maps.Keys(c.config.Accounts)) }

// due returns the records to ask for at now, of which tries begin: renewals first. A namespace of Gateways that has
// some under way leaves as many places free as it has.
func (c *Client) due(now time.Time) (out []acme.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tries := map[string]int{} // under way, by namespace
	count := func(s acme.Set) {
		for _, owner := range s.Owners() {
			tries[owner]++
		}
	}
	var waiting []acme.Set
	for _, s := range c.sets {
		switch key := s.Key(); {
		case c.under[key]:
			count(s)
		case len(s.NoHTTP) == 0 && !now.Before(c.records[key].Due()):
			waiting = append(waiting, s)
		}
	}
	slices.SortStableFunc(waiting, func(a, b acme.Set) int {
		return cmp.Compare(min(len(c.records[b.Key()].Chain), 1), min(len(c.records[a.Key()].Chain), 1))
	})
	for _, s := range waiting {
		free, own := maxTries-len(c.under), maxTries
		for _, owner := range s.Owners() {
			own = min(own, tries[owner])
		}
		if free <= 0 || own > 0 && own >= free {
			continue
		}
		count(s)
		c.under[s.Key()] = true
		out = append(out, c.records[s.Key()])
	}
	return out
}

// learn takes the end of a try.
func (c *Client) learn(end result) {
	now, r, what := time.Now(), end.record, "issued"
	key := r.Set().Key()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.under, key)
	switch {
	case end.err == nil:
		delete(c.broken, r.Set().ID())
		c.log.Info("certificate issued", "hosts", r.Hosts, "issuer", r.Issuer, "namespace", r.Namespace, "until", r.NotAfter)
	case end.term.Err() != nil, errors.Is(end.err, acme.ErrTaken), errors.Is(end.err, acme.ErrFollows):
		c.log.Info("certificate not asked for any further, what is stored says how it goes on", "hosts", r.Hosts, "issuer", r.Issuer, "err", end.err)
		return
	default:
		if unknownAccount(end.err) {
			c.accounts[r.Issuer].forget()
		}
		after, limited, over := verdict(end.err, now)
		said := r.Fault
		r = r.Failed(now, end.err.Error(), after, limited, over, c.random())
		if what = "refused"; limited {
			what = "limited"
		}
		if !r.Unbegun || r.Fault != said { // else it is in the log
			c.log.Warn("certificate not issued", "hosts", r.Hosts, "issuer", r.Issuer, "namespace", r.Namespace, "failures", r.Failures, "again", r.Next, "err", r.Fault)
		}
	}
	c.counts.orders.WithLabelValues(what).Inc()
	c.unsaved[key] = ""
	c.reachedLocked(r)
}

// reached has what a try has stored served.
func (c *Client) reached(r acme.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reachedLocked(r)
}

func (c *Client) reachedLocked(r acme.Record) {
	key := r.Set().Key()
	if now, is := c.records[key]; is {
		r.Secrets = now.Secrets // they may have changed meanwhile
	}
	c.records[key] = r
	c.serveLocked()
	c.Look()
}

// serveLocked has gateways answer questions, and get the last good certificate of each name: that of the set which the
// name stands for now, or until that has one, the one before.
func (c *Client) serveLocked() {
	chosen := map[secret.Name]acme.Record{}
	better := func(name secret.Name, r acme.Record) {
		if was, is := chosen[name]; !is || r.NotBefore.After(was.NotBefore) {
			chosen[name] = r
		}
	}
	current := map[secret.Name]bool{}
	for _, s := range c.sets {
		if r := c.records[s.Key()]; len(r.Chain) > 0 {
			for _, of := range s.Secrets { // what is stored may not say so yet
				name := secret.Name{Namespace: s.Namespace, Name: of}
				chosen[name], current[name] = r, true
			}
		}
	}
	for _, r := range c.records {
		if len(r.Chain) == 0 {
			continue
		}
		for _, of := range r.Secrets {
			if name := (secret.Name{Namespace: r.Namespace, Name: of}); !current[name] {
				better(name, r)
			}
		}
	}
	c.secrets.set(chosen)
	c.challenges.set(acme.Asks(c.records, c.sets))
}

// said returns the notes as one text.
func (c *Client) said() string {
	var out strings.Builder
	for _, n := range c.Notes() {
		fmt.Fprintln(&out, n.Code, n.Meta.Key(), n.Meta.Origin, n.Path, n.Message)
	}
	return out.String()
}
