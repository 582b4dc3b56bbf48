package client

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/pilotlight/pilotlight/discovery/acme"
)

// load takes what is stored, unless this process knows better, and reports whether that is known.
func (c *Client) load(now time.Time) bool {
	stored, broken, err := c.store.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faultLocked(err, "")
	if c.replicas == nil { // the rest of discovery does not wait for a directory
		c.challenges.begin()
		c.secrets.begin()
	}
	if stored == nil {
		return false
	}
	c.read = c.leads && c.replicas == nil
	for id := range broken {
		if _, told := c.broken[id]; !told {
			c.log.Error("state of a certificate is not used: its set is not asked for within an hour", "err", broken[id].Err)
		}
	}
	c.broken = broken
	for _, key := range slices.Sorted(maps.Keys(c.records)) {
		if _, is := stored[key]; !is {
			c.followLocked(key, nil, now)
		}
	}
	for key, r := range stored {
		c.followLocked(key, &r, now)
	}
	c.serveLocked()
	c.challenges.begin()
	c.secrets.begin()
	return true
}

func (c *Client) followLocked(key string, stored *acme.Record, now time.Time) {
	_, unsaved := c.unsaved[key]
	next, keep, write := acme.Follow(c.records[key], stored, c.under[key] || unsaved, now)
	if !keep {
		delete(c.records, key)
		return
	}
	next.Unneeded = c.records[key].Unneeded
	c.records[key] = next
	if write && c.leads && !c.under[key] {
		c.unsaved[key] = ""
	}
}

// term returns the context within which this process may ask, and reports whether it may. It tells if the store is at
// fault.
func (c *Client) term(ctx context.Context) (context.Context, bool) {
	term, err := c.store.Term(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leads = err == nil
	if err != nil {
		clear(c.unsaved) // what is stored counts
		c.read = false
		if c.replicas == nil { // else load says what is wrong
			c.faultLocked(err, ": no certificate is asked for")
		}
	}
	return term, c.leads
}

func (c *Client) faultLocked(err error, so string) {
	text := ""
	if err != nil {
		text = err.Error() + so
	}
	if text != "" && text != c.fault {
		c.log.Error("certificates of issuers: " + text)
	}
	c.fault = text
}

// write stores what has changed, and removes what has no use any more.
func (c *Client) write(ctx context.Context, now time.Time) {
	for _, r := range c.toSave() {
		err := c.store.Save(ctx, r)
		if err != nil && (ctx.Err() != nil || errors.Is(err, acme.ErrFollows)) {
			return // another replica keeps it, or a later start
		}
		if !c.saved(r, err) {
			return // the others may fail too, each after its time
		}
	}
	for _, r := range c.toForget(now) {
		if err := c.store.Forget(ctx, r); err != nil && c.replicas != nil {
			return // it is loaded again
		} // else it may never have been kept; a later start forgets it again
	}
}

// toSave returns the records to store, those behind the one that failed last first: it delays no other.
func (c *Client) toSave() (out []acme.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := slices.Sorted(maps.Keys(c.unsaved))
	at := sort.SearchStrings(keys, c.failed+" ")
	for _, key := range append(keys[at:len(keys):len(keys)], keys[:at]...) {
		if r, is := c.records[key]; !is {
			delete(c.unsaved, key)
		} else if !c.under[key] { // the try stores it
			out = append(out, r)
		}
	}
	return out
}

// saved takes the outcome of storing a record, and reports whether others can be stored.
func (c *Client) saved(r acme.Record, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := r.Set().Key()
	if err == nil || errors.Is(err, acme.ErrTaken) {
		delete(c.unsaved, key)
		return true
	}
	text := err.Error()
	if text != c.unsaved[key] {
		c.log.Error("state of a certificate is not kept", "hosts", r.Hosts, "issuer", r.Issuer, "err", err)
	}
	c.unsaved[key], c.failed = text, key
	return false
}

// toForget takes out the records that nobody names, and that say nothing about the future, or are too many.
func (c *Client) toForget(now time.Time) (out []acme.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sets == nil {
		return nil
	}
	excess := acme.Excess(c.records, c.sets, acme.MaxRecords)
	for _, key := range slices.Sorted(maps.Keys(c.records)) {
		r := c.records[key]
		if slices.ContainsFunc(c.sets, r.Of) {
			continue
		}
		if r.Unneeded.IsZero() {
			r.Unneeded = now
			c.records[key] = r
		}
		late := now.Sub(r.Unneeded) > forgetPause || r.Order == "" && r.Failures == 0
		old := r.Old(now) && !c.secrets.uses(r) && late
		if !c.under[key] && (old || slices.Contains(excess, key)) {
			delete(c.records, key)
			delete(c.unsaved, key)
			out = append(out, r)
		}
	}
	return out
}

// report tells other replicas of this one's gateways.
func (c *Client) report(now time.Time) {
	m := c.config.Mesh()
	if c.replicas == nil || m == nil {
		return
	}
	kinds, more := acme.KindsOf(m, c.config.Proxies(), c.namespaces())
	c.mu.Lock()
	asks := acme.Asks(c.records, c.sets)
	c.crowd = more
	c.mu.Unlock()
	says := acme.Report{Kinds: kinds, Shown: map[string]int{}}
	for namespace, questions := range asks {
		for _, q := range questions {
			if serving, behind := c.lagging(namespace, q); len(behind) == 0 {
				says.Shown[q.Token] = serving
			}
		}
	}
	c.replicas.Say(says)
}
