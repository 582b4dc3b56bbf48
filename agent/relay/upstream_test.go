package relay

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/agent/frame"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A server is discovery only if its certificate is of these roots and has this name.
func TestVerify(t *testing.T) {
	ca, err := lab.NewAuthority("mesh")
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := lab.NewAuthority("foreign")
	if err != nil {
		t.Fatal(err)
	}
	const pilot = "spiffe://cluster.local/ns/istio-system/sa/pilot"
	chain := func(a *lab.Authority, change func(c *x509.Certificate)) (out []*x509.Certificate) {
		t.Helper()
		identity, err := a.IssueWith("pilot.test", 1, func(c *x509.Certificate) {
			uri, _ := url.Parse(pilot)
			c.URIs = []*url.URL{uri}
			if change != nil {
				change(c)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		for block, rest := pem.Decode(identity.Chain); block != nil; block, rest = pem.Decode(rest) {
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, c)
		}
		return out
	}
	for _, test := range []struct {
		name  string
		chain []*x509.Certificate
		roots *x509.CertPool
		san   string
		want  string // in the error; empty for none
	}{
		{"as it is", chain(ca, nil), ca.Pool(), pilot, ""},
		{"by DNS", chain(ca, nil), ca.Pool(), "pilot.test", ""},
		{"another name", chain(ca, nil), ca.Pool(), pilot + "-2", "discovery shows a certificate of ["},
		{"no name", chain(ca, nil), ca.Pool(), "", "nothing to check it by"},
		{"no roots", chain(ca, nil), nil, pilot, "nothing to check it by"},
		{"no certificate", nil, ca.Pool(), pilot, "shows no certificate"},
		{"a foreign root", chain(foreign, nil), ca.Pool(), pilot, "unknown authority"},
		{"expired", chain(ca, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), ca.Pool(), pilot, "expired"},
		{"of a client", chain(ca, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), ca.Pool(), pilot, "key usage"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := verify(test.chain, test.roots, test.san)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestPauseAfter(t *testing.T) {
	for _, test := range []struct {
		refusals int64
		share    float64
		want     time.Duration
	}{
		{0, 0, 500 * time.Millisecond},
		{0, 1, 1500 * time.Millisecond},
		{soon, 1, 1500 * time.Millisecond},
		{soon + 1, 0, time.Second},
		{soon + 2, 0.5, 4 * time.Second},
		{soon + 3, 1, 12 * time.Second},
		{1 << 40, 0, 4 * time.Second},
	} {
		if got := pauseAfter(test.refusals, test.share); got != test.want {
			t.Errorf("%d refusals, share %v: %v, want %v", test.refusals, test.share, got, test.want)
		}
	}
}

// Only an attempt that discovery has noticed slows the next ones down.
func TestUnreached(t *testing.T) {
	for _, test := range []struct {
		err             error
		unreached, full bool
	}{
		{fmt.Errorf("ask: %w", &net.OpError{Op: "dial", Err: errors.New("refused")}), true, false},
		{&net.DNSError{Err: "no such host"}, true, false},
		{&net.OpError{Op: "read", Err: errors.New("reset")}, false, false},
		{errors.New("discovery has not answered for 10s"), false, false},
		{&refusal{frame.Unavailable, "not synced yet"}, false, false},
		{&refusal{frame.ResourceExhausted, "too many new streams, come again later"}, false, true},
	} {
		var p pace
		p.failed(test.err)
		if got := p.refusals.Load() == 0; got != test.unreached || full(test.err) != test.full {
			t.Errorf("%v: unreached %t, full %t", test.err, got, full(test.err))
		}
	}
}

// crowd is a discovery that takes some streams a second, refuses the others, and is away until a time. It counts.
type crowd struct {
	perSecond float64
	back      time.Time

	mu       sync.Mutex
	tokens   float64
	last     time.Time
	attempts map[int]int // by the second after its return
}

func (c *crowd) ask() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Before(c.back) {
		return &net.OpError{Op: "dial", Err: errors.New("refused")}
	}
	c.attempts[int(now.Sub(c.back)/time.Second)]++
	c.tokens = min(c.perSecond, c.tokens+now.Sub(c.last).Seconds()*c.perSecond)
	c.last = now
	if c.tokens < 1 {
		return &refusal{frame.ResourceExhausted, "too many new streams, come again later"}
	}
	c.tokens--
	return nil
}

// An attempt that ends with the stream for which it is made is no failure of discovery.
func TestUntilTheStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var p pace
		asked := func() error { cancel(); return context.Canceled }
		if p.untilAnswered(ctx, asked, func(why string) { t.Errorf("discovery is lost: %s", why) }) || p.refusals.Load() != 0 {
			t.Errorf("%d refusals", p.refusals.Load())
		}
	})
}

// Ten thousand proxies that serve their memory come back to a discovery that takes 200 new streams a second
// (--maxNewStreamsPerSecond). All of them are
// served, and what it has to refuse becomes little within ten seconds.
func TestAHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const herd, perSecond = 10_000, 200
		began := time.Now()
		c := &crowd{perSecond: perSecond, back: began.Add(time.Minute), last: began.Add(time.Minute), attempts: map[int]int{}}
		var all sync.WaitGroup
		for range herd {
			all.Go(func() {
				var p pace
				if !p.untilAnswered(context.Background(), c.ask, func(string) {}) {
					t.Error("a proxy has given up")
				}
			})
		}
		all.Wait()
		took := time.Since(c.back)
		sum, late := 0, 0
		for second, n := range c.attempts {
			sum += n
			if second >= 10 {
				late = max(late, n)
			}
		}
		t.Logf("all are back after %v, with %.1f attempts each; at most %d in a second from the tenth on; by second: %v", took, float64(sum)/herd, late, c.attempts)
		if took > 2*herd/perSecond*time.Second {
			t.Errorf("all are back after %v, and discovery could have them in %v", took, herd/perSecond*time.Second)
		}
		if late > herd/5 {
			t.Errorf("%d attempts in a second, want at most %d", late, herd/5)
		}
		if sum > 10*herd {
			t.Errorf("%d attempts of %d proxies", sum, herd)
		}
	})
}
