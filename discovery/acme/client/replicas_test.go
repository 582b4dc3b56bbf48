package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/acme"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// shelf is what replicas share.
type shelf struct {
	mu       sync.Mutex
	records  map[string]acme.Record
	versions map[string]int
	accounts map[string][]byte
	reports  map[string]acme.Report
	heard    map[string]acme.Heard
	writes   int
	crash    int  // the write at which the leader ends, 0 for none
	stores   bool // that write is done
}

func newShelf() *shelf {
	return &shelf{records: map[string]acme.Record{}, versions: map[string]int{}, accounts: map[string][]byte{}, reports: map[string]acme.Report{}}
}

// peer is one replica's view of a shelf. It implements Replicas.
type peer struct {
	*shelf
	name string
	term context.Context // nil while it does not lead
	end  context.CancelFunc
	mute bool
	seen map[string]int
}

func (p *peer) Name() string { return p.name }
func (p *peer) Close()       {}

func (p *peer) Load() (map[string]acme.Record, map[string]acme.Broken, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = maps.Clone(p.versions)
	return maps.Clone(p.records), nil, nil
}

func (p *peer) Term(context.Context) (context.Context, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.term == nil || p.term.Err() != nil {
		return nil, acme.ErrFollows
	}
	return p.term, nil
}

func (p *peer) lead(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.term, p.end = context.WithCancel(ctx)
}

func (p *peer) Save(_ context.Context, r acme.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := r.Set().Key()
	switch {
	case p.term == nil || p.term.Err() != nil:
		return acme.ErrFollows
	case p.seen[key] != p.versions[key]:
		return acme.ErrTaken
	}
	p.writes++
	ends := p.writes == p.crash
	if !ends || p.stores {
		p.records[key] = r
		p.versions[key]++
		p.seen[key] = p.versions[key]
	}
	if ends {
		p.end()
		return errors.New("crashed")
	}
	return nil
}

func (p *peer) Forget(_ context.Context, r acme.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.records, r.Set().Key())
	return nil
}

func (p *peer) Account(_ context.Context, issuer, _ string, made func() ([]byte, error)) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.accounts[issuer] == nil {
		text, err := made()
		if err != nil {
			return nil, err
		}
		p.accounts[issuer] = text
	}
	return p.accounts[issuer], nil
}

func (p *peer) Say(r acme.Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mute {
		return
	}
	if next := acme.Reports(p.reports, p.heard, p.name, r, time.Now()); next != nil {
		p.reports = next
		p.heard = acme.Hear(p.heard, next, time.Now())
	}
}

func (p *peer) Heard() map[string]acme.Heard {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.heard)
}

// world is an issuer, replicas, and a gateway at one of them.
type world struct {
	t *testing.T
	*shelf
	issuer  *fulfiller
	at      string // the replica with the gateway
	behind  bool   // the gateway does not acknowledge
	stuck   bool   // nor does another one beside it
	clients map[string]*Client
}

func newSharedWorld(t *testing.T) *world {
	w := &world{t: t, shelf: newShelf(), issuer: newFulfiller(t), at: "b", clients: map[string]*Client{}}
	w.issuer.answer = func(token string) string {
		w.mu.Lock()
		c := w.clients[w.at]
		w.mu.Unlock()
		if c == nil {
			return ""
		}
		for _, g := range c.challenges.all() {
			if o := g.Objects[0]; o.Name == token {
				return o.Spec.(*networking.HTTPRoute).DirectResponse.Body.GetString_()
			}
		}
		return ""
	}
	return w
}

// start starts a replica, until the function that it returns is called.
func (w *world) start(name string) (p *peer, stop func()) {
	w.t.Helper()
	p = &peer{shelf: w.shelf, name: name}
	return p, w.startWith(name, p)
}

// startWith starts a Client that keeps what it knows in a store.
func (w *world) startWith(name string, p Store) (stop func()) {
	w.t.Helper()
	mesh := model.New(slices.Values([]model.Group{{Objects: []*model.Object{{
		Meta: model.Meta{Kind: "Gateway", Namespace: "edge", Name: "g"},
		Spec: &networking.Gateway{Selector: map[string]string{"a": "b"}, Servers: []*networking.Server{
			{Port: &networking.Port{Number: 443, Name: "s", Protocol: "HTTPS"}, Hosts: []string{"a.test"}, Tls: &networking.ServerTLSSettings{CredentialName: "acme://lets", Mode: networking.ServerTLSSettings_SIMPLE}},
			{Port: &networking.Port{Number: 80, Name: "h", Protocol: "HTTP"}, Hosts: []string{"*"}},
		}},
	}}}}))
	c, err := New(Config{
		Issuers: Issuers{{Name: "lets", URL: "https://issuer.test/dir"}}, Store: p, Accounts: map[string][]string{"edge": {"gw"}},
		Mesh: func() *model.Mesh { return mesh },
		Proxies: func() []model.Proxy {
			w.mu.Lock()
			defer w.mu.Unlock()
			if name != w.at {
				return nil
			}
			one := model.Proxy{Namespace: "edge", Labels: map[string]string{"a": "b"}, Gateway: true}
			two := one
			if two.Stream = 1; w.stuck {
				return []model.Proxy{one, two}
			}
			return []model.Proxy{one}
		},
		Lagging: func([]int64, string, string) map[int64]string {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.behind {
				return map[int64]string{0: "gw"}
			}
			if w.stuck {
				return map[int64]string{1: "stuck"}
			}
			return nil
		},
		Changed: func() {}, Log: slog.New(slog.DiscardHandler),
	})
	check(w.t, err)
	c.accounts["lets"].http = &http.Client{Transport: guarded{w.issuer, p}}
	w.mu.Lock()
	w.clients[name] = c
	w.mu.Unlock()
	ctx, end := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Run(ctx)
	}()
	return func() {
		end()
		<-ended
	}
}

// pass lets time pass.
func pass(d time.Duration) { <-time.After(d) }

// served returns the certificates that a replica serves.
func (w *world) served(name string) (n int) { return len(w.clients[name].secrets.all()) }

const sharedKey = "edge lets a.test"

func (w *world) stored() acme.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.records[sharedKey]
}

// The leader orders for a gateway at another replica, which answers, and both serve the certificate. A restart of both orders nothing.
func TestReplicasShareACertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSharedWorld(t)
		a, stopA := w.start("a")
		_, stopB := w.start("b")
		a.lead(t.Context())
		pass(20 * time.Second)
		if w.served("a") != 1 || w.served("b") != 1 || w.issuer.count() != 1 || w.issuer.failed > 0 || len(w.stored().Questions) > 0 {
			t.Errorf("served %d and %d, orders %d, failed %d, %+v", w.served("a"), w.served("b"), w.issuer.count(), w.issuer.failed, w.stored())
		}
		stopA()
		stopB()
		b, stopB := w.start("b")
		if w.served("b") != 1 {
			t.Error("a replica that starts does not serve what is stored")
		}
		defer stopB()
		b.lead(t.Context())
		pass(time.Hour)
		if n := w.issuer.count(); n != 1 {
			t.Errorf("%d orders after a restart", n)
		}
		pass(70 * time.Minute)
		if n := w.issuer.count(); n != 2 || w.issuer.failed > 0 {
			t.Errorf("%d orders when a third of the life is left, want 2; %d failed", n, w.issuer.failed)
		}
	})
}

// The leader ends at each of its writes, before and after it is done. The next one goes on with the order that was written; where none was, it waits a minute, as after a
// crash. No validation fails.
func TestTheLeaderEndsAtEachWrite(t *testing.T) {
	for _, stores := range []bool{false, true} {
		for crash := 1; crash <= 4; crash++ {
			t.Run(fmt.Sprintf("%d %t", crash, stores), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newSharedWorld(t)
					w.crash, w.stores = crash, stores
					a, stopA := w.start("a")
					b, stopB := w.start("b")
					defer stopB()
					a.lead(t.Context())
					pass(20 * time.Second)
					if w.writes != crash {
						t.Fatalf("%d writes", w.writes)
					}
					stopA()
					begun := w.stored().Begun()
					ordered := w.issuer.count()
					b.lead(t.Context())
					pass(30 * time.Second)
					if n := w.issuer.count(); begun && n != ordered {
						t.Errorf("%d orders in the minute after a try whose end is not known", n)
					}
					pass(2 * time.Minute)
					want := 1
					if crash == 2 && !stores { // the order is known to nobody
						want = 2
					}
					if n := w.issuer.count(); n != want || w.served("b") != 1 || w.issuer.failed > 0 {
						t.Errorf("%d orders, want %d; %d certificates served, %d validations failed: %+v", n, want, w.served("b"), w.issuer.failed, w.stored())
					}
				})
			})
		}
	}
}

// Two replicas that both believe that they lead order once: the writes of one are refused.
func TestTwoLeadersOrderOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSharedWorld(t)
		a, stopA := w.start("a")
		b, stopB := w.start("b")
		defer stopA()
		defer stopB()
		a.lead(t.Context())
		b.lead(t.Context())
		pass(10 * time.Minute)
		if n := w.issuer.count(); n != 1 || w.served("a") != 1 || w.served("b") != 1 || w.issuer.failed > 0 {
			t.Errorf("%d orders, %d failed", n, w.issuer.failed)
		}
	})
}

// A gateway that never acknowledges delays a certificate by half a minute, at whichever replica it is, and a note names it while it is connected.
func TestAStuckGatewayIsNotWaitedFor(t *testing.T) {
	for _, at := range []string{"a", "b"} {
		synctest.Test(t, func(t *testing.T) {
			w := newSharedWorld(t)
			w.at, w.stuck = at, true
			a, stopA := w.start("a")
			_, stopB := w.start("b")
			defer stopA()
			defer stopB()
			a.lead(t.Context())
			pass(waitFor - time.Second)
			if n := w.served("a"); n > 0 {
				t.Errorf("at %s: certificate %d came before", at, n)
			}
			pass(15 * time.Second)
			if w.served("a") != 1 || w.issuer.failed > 0 {
				t.Errorf("at %s: no certificate, %d failed: %+v", at, w.issuer.failed, w.stored())
			}
			noted := func() string { return fmt.Sprint(w.clients[at].Notes()) }
			if said := noted(); !strings.Contains(said, string(model.ACMEWaits)) || !strings.Contains(said, "not waited for: stuck;") {
				t.Errorf("at %s: the notes are %s", at, said)
			}
			w.mu.Lock()
			w.stuck = false // it has left
			w.mu.Unlock()
			if pass(lookAgain); strings.Contains(noted(), "stuck") {
				t.Errorf("at %s: it has left, and is named: %s", at, noted())
			}
		})
	}
}

// Nothing is accepted before the gateways of the other replica have the answer. A replica that says nothing any more is waited for, and then not.
func TestGatewaysOfOtherReplicasAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSharedWorld(t)
		w.behind = true
		a, stopA := w.start("a")
		_, stopB := w.start("b")
		defer stopA()
		a.lead(t.Context())
		pass(50 * time.Second)
		if r := w.stored(); len(r.Questions) != 1 || w.issuer.failed > 0 || len(w.issuer.proven) > 0 {
			t.Errorf("asked too early: %+v", r)
		}
		pass(20 * time.Second)
		if r := w.stored(); r.Order == "" || r.Fault != "the gateways have not taken the answer to the challenge: none that serves a.test at port 80 is connected and has accepted it" {
			t.Errorf("after a minute: %+v", r)
		}
		stopB() // it ends with its gateway, which comes to a
		w.mu.Lock()
		w.at, w.behind = "a", false
		w.mu.Unlock()
		pass(3 * time.Minute)
		if n := w.issuer.count(); n != 1 || w.served("a") != 1 || w.issuer.failed > 0 {
			t.Errorf("%d orders, %d certificates, %d failed: %+v", n, w.served("a"), w.issuer.failed, w.stored())
		}
	})
}

// A replica that follows says nothing of a try that the leader has begun.
func TestFollowersTellOfNoCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSharedWorld(t)
		r := acme.Record{Namespace: "edge", Issuer: "lets", Hosts: []string{"a.test"}}
		w.records[sharedKey] = r.Begin(time.Now(), 0)
		b, stop := w.start("b")
		defer stop()
		pass(10 * time.Second)
		if notes := w.clients["b"].Notes(); len(notes) > 0 {
			t.Errorf("it says %v", notes)
		}
		b.lead(t.Context())
		pass(10 * time.Second)
		if notes := w.clients["b"].Notes(); len(notes) != 1 || notes[0].Code != model.ACMERefused {
			t.Errorf("the next leader says %v", notes)
		}
	})
}
