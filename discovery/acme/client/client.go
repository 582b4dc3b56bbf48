package client

import (
	"context"
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
	Dir      string              // of keys, certificates and the state of orders
	Accounts map[string][]string // service accounts of gateways that get certificates, by namespace

	Mesh    func() *model.Mesh // nil before the first one
	Proxies func() []model.Proxy
	// Behind returns the nodes of those streams that have not accepted the answer to a challenge.
	Behind  func(streams []int64, namespace, token string) []string
	Changed func() // is called when Notes has others
	Log     *slog.Logger
}

// Times of the loop, and how much is under way.
const (
	maxTries  = 4
	lookAgain = 5 * time.Second // at what is connected
)

// Client gets certificates, and serves them. New makes one.
type Client struct {
	config     Config
	accounts   map[string]*account // by issuer
	store      *store
	log        *slog.Logger
	random     func() float64
	challenges *challenges
	secrets    *secrets
	counts     *counts
	news       chan struct{}

	mu      sync.Mutex
	records map[string]acme.Record // by key
	sets    []acme.Set             // wanted
	broken  map[string]fault       // files that cannot be read
	fault   string                 // of the directory
	notes   []model.Note           // about what cannot be asked for
}

// New returns a Client with what an earlier run has kept.
func New(c Config) (*Client, error) {
	k := &Client{
		config: c, accounts: map[string]*account{}, store: &store{dir: c.Dir}, log: c.Log, random: rand.Float64,
		challenges: newChallenges(), counts: newCounts(), news: make(chan struct{}, 1),
	}
	for _, i := range c.Issuers {
		a, err := newAccount(i, k.store, c.Inside)
		if err != nil {
			return nil, err
		}
		k.accounts[i.Name] = a
	}
	var err error
	if k.records, k.broken, err = k.store.load(); err != nil {
		k.fault = err.Error()
	}
	k.secrets = newSecrets(c.Accounts)
	k.serve()
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
}

// Run asks for what is due until ctx is done.
func (c *Client) Run(ctx context.Context) error {
	defer c.store.free()
	var tries sync.WaitGroup
	defer tries.Wait()
	c.tellBroken()
	under, results := map[string]bool{}, make(chan result, maxTries)
	timer, said := time.NewTimer(0), ""
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.news:
		case <-timer.C:
		case end := <-results:
			delete(under, end.record.Set().Key())
			c.learn(ctx, end)
		}
		if ctx.Err() == nil && c.owns() {
			c.want(time.Now())
			for _, r := range c.due(time.Now(), under) {
				under[r.Set().Key()] = true
				tries.Go(func() {
					done, err := c.try(ctx, r)
					results <- result{done, err} // there is room for each
				})
			}
		}
		if now := c.said(); now != said {
			said = now
			c.config.Changed()
		}
		timer.Reset(lookAgain)
	}
}

// owns reports whether this process may ask, and tells if it may not.
func (c *Client) owns() bool {
	err := c.store.own()
	c.mu.Lock()
	defer c.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error() + ": no certificate is asked for"
	}
	if text != "" && text != c.fault {
		c.log.Error("certificates of issuers: " + text)
	}
	c.fault = text
	return err == nil
}

// want sets what gateways need.
func (c *Client) want(now time.Time) {
	m := c.config.Mesh()
	if m == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := map[string]bool{}
	for key := range c.records {
		known[key] = true
	}
	c.sets, c.notes = acme.Wanted(m, c.config.Proxies(), slices.Sorted(maps.Keys(c.config.Accounts)), c.config.Issuers.Names(), known)
	for _, s := range c.sets {
		key := s.Key()
		r, is := c.records[key]
		if !is {
			r = acme.Record{Namespace: s.Namespace, Issuer: s.Issuer, Hosts: s.Hosts}
			if broken, is := c.broken[nameOf(key)]; is {
				r.Fault, r.Next = acme.Clip(broken.Error()), broken.at.Add(brokenPause)
			}
		}
		if !slices.Equal(r.Secrets, s.Secrets) && len(r.Chain) > 0 {
			r.Secrets = s.Secrets
			if err := c.store.save(r); err != nil {
				c.log.Error("state of a certificate is not kept", "hosts", r.Hosts, "issuer", r.Issuer, "err", err)
			}
		}
		r.Secrets = s.Secrets
		c.records[key] = r
	}
	c.clean(now)
	c.serveLocked()
}

// clean forgets records that nobody names, and that say nothing about the future.
func (c *Client) clean(now time.Time) {
	for key, r := range c.records {
		if r.Old(now) && !slices.ContainsFunc(c.sets, r.Of) && !c.secrets.uses(r) {
			delete(c.records, key)
			_ = c.store.forget(key) // it may never have been kept; a later start forgets it again
		}
	}
}

// due returns the records to ask for at now.
func (c *Client) due(now time.Time, under map[string]bool) (out []acme.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sets {
		key := s.Key()
		r := c.records[key]
		if len(s.NoHTTP) > 0 || under[key] || now.Before(r.Due()) || len(under)+len(out) >= maxTries {
			continue
		}
		out = append(out, r)
	}
	return out
}

// learn takes the end of a try.
func (c *Client) learn(ctx context.Context, end result) {
	now, r, what := time.Now(), end.record, "issued"
	switch {
	case end.err == nil:
		c.mend(r)
		c.log.Info("certificate issued", "hosts", r.Hosts, "issuer", r.Issuer, "namespace", r.Namespace, "until", r.NotAfter)
	case ctx.Err() != nil:
		return // what is kept says how it goes on
	default:
		if unknownAccount(end.err) {
			c.accounts[r.Issuer].forget()
		}
		after, limited, over := verdict(end.err, now)
		r = r.Failed(now, end.err.Error(), after, limited, over, c.random())
		if what = "refused"; limited {
			what = "limited"
		}
		c.log.Warn("certificate not issued", "hosts", r.Hosts, "issuer", r.Issuer, "namespace", r.Namespace, "failures", r.Failures, "again", r.Next, "err", r.Fault)
		if err := c.store.save(r); err != nil {
			c.log.Error("state of a certificate is not kept", "hosts", r.Hosts, "issuer", r.Issuer, "err", err)
		}
	}
	c.counts.orders.WithLabelValues(what).Inc()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.records[r.Set().Key()] = r
	c.serveLocked()
}

func (c *Client) serve() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serveLocked()
}

// serveLocked has gateways get the last good certificate of each name: that of the set which the name stands for now, or until that
// has one, the one before.
func (c *Client) serveLocked() {
	chosen := map[secret.Name]acme.Record{}
	better := func(name secret.Name, r acme.Record) {
		if was, is := chosen[name]; !is || r.NotBefore.After(was.NotBefore) {
			chosen[name] = r
		}
	}
	current := map[secret.Name]string{}
	for _, s := range c.sets {
		for _, name := range s.Secrets {
			current[secret.Name{Namespace: s.Namespace, Name: name}] = s.Key()
		}
	}
	for key, r := range c.records {
		if len(r.Chain) == 0 {
			continue
		}
		for _, of := range r.Secrets {
			name := secret.Name{Namespace: r.Namespace, Name: of}
			if now, is := current[name]; !is || now == key || len(c.records[now].Chain) == 0 {
				better(name, r)
			}
		}
	}
	c.secrets.set(chosen)
}

// mend forgets that the file of a record could not be read.
func (c *Client) mend(r acme.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.broken, nameOf(r.Set().Key()))
}

// said returns the notes as one text.
func (c *Client) said() string {
	var out strings.Builder
	for _, n := range c.Notes() {
		fmt.Fprintln(&out, n.Code, n.Meta.Key(), n.Meta.Origin, n.Path, n.Message)
	}
	return out.String()
}

// tellBroken logs the files that cannot be read.
func (c *Client) tellBroken() {
	for _, name := range slices.Sorted(maps.Keys(c.broken)) {
		c.log.Error("state of a certificate is not used: its set is asked for an hour after the file has changed", "err", c.broken[name].error)
	}
}
