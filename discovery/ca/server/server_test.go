package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// memory keeps join tokens.
type memory struct{ all ca.Tokens }

func (m *memory) add(t *testing.T, account string, once bool) string {
	t.Helper()
	all, _, text, err := m.all.Add("shop", account, time.Hour, once, begin)
	check(t, err)
	m.all = all
	return text
}

func (m *memory) Redeem(_ context.Context, text string, key ca.Key, now time.Time) (ca.Token, error) {
	all, used, err := m.all.Redeem(text, key, now)
	if err == nil {
		m.all = all
	}
	return used, err
}

// further knows tokens by their beginning.
type further struct{}

func (further) Identify(_ context.Context, token, domain string) (ca.Identity, error) {
	switch {
	case strings.HasPrefix(token, "sa:") && strings.Count(token, ":") == 4:
		parts := strings.Split(token, ":")
		return ca.NewIdentity(domain, parts[3], parts[4])
	case token == "away":
		return ca.Identity{}, &Busy{"unreachable", time.Second, errors.New("the API server is away")}
	default:
		return ca.Identity{}, ErrForeign
	}
}

type fixture struct {
	*Server
	t         *testing.T
	tokens    *memory
	authority *ca.Authority
	now       time.Time
	domains   []string
	log       *strings.Builder
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, tokens: &memory{}, authority: newAuthority(t), now: begin, domains: []string{"cluster.local", "old.test"}, log: &strings.Builder{}}
	f.Server = New(Config{
		Authority: func() *ca.Authority { return f.authority }, Terms: ca.Terms{Default: time.Hour, Most: 2 * time.Hour}, JoinTokens: f.tokens, Further: []Authenticator{further{}},
		TrustDomains: func() []string { return f.domains }, Log: slog.New(slog.NewTextHandler(f.log, nil)), Now: func() time.Time { return f.now },
	})
	return f
}

func newAuthority(t *testing.T) *ca.Authority {
	t.Helper()
	files, err := ca.NewRoot("root", ca.RootLife, begin)
	check(t, err)
	a, err := ca.Read(files, begin)
	check(t, err)
	return a
}

// request makes a CSR that names somebody else.
func request(t testing.TB) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	admin, err := url.Parse("spiffe://cluster.local/ns/kube-system/sa/admin")
	check(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{URIs: []*url.URL{admin}}, key)
	check(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// chain returns a verified chain of a leaf that an authority has signed.
func chain(t *testing.T, a *ca.Authority, domain string) [][]*x509.Certificate {
	t.Helper()
	key, err := ca.ReadRequest(request(t))
	check(t, err)
	id, err := ca.NewIdentity(domain, "shop", "held")
	check(t, err)
	leaf, err := a.Sign(key, id, time.Hour, ca.Terms{Default: time.Hour, Most: time.Hour}, begin)
	check(t, err)
	var out []*x509.Certificate
	for _, text := range [][]byte{leaf.Chain[0], a.Roots()} {
		block, _ := pem.Decode(text)
		c, err := x509.ParseCertificate(block.Bytes)
		check(t, err)
		out = append(out, c)
	}
	return [][]*x509.Certificate{out}
}

var peer = netip.MustParseAddr("10.0.0.1")

func TestCallersGetWhatTheyProve(t *testing.T) {
	f := newFixture(t)
	join := f.tokens.add(t, "web", false)
	for name, c := range map[string]struct {
		caller Caller
		want   string // an identity, or a cause
		log    string
	}{
		"a certificate":                  {Caller{Chains: chain(t, f.authority, "cluster.local")}, "spiffe://cluster.local/ns/shop/sa/held", "proof=certificate"},
		"one of an alias":                {Caller{Chains: chain(t, f.authority, "old.test")}, "spiffe://cluster.local/ns/shop/sa/held", ""},
		"one of a foreign trust domain":  {Caller{Chains: chain(t, f.authority, "foreign.test")}, "certificate", "the mesh has the trust domains"},
		"one of another authority":       {Caller{Chains: chain(t, newAuthority(t), "cluster.local")}, "certificate", "is of another authority"},
		"another's, and a token":         {Caller{Chains: chain(t, newAuthority(t), "cluster.local"), Token: join}, "spiffe://cluster.local/ns/shop/sa/web", ""},
		"a certificate decides":          {Caller{Chains: chain(t, f.authority, "cluster.local"), Token: join}, "spiffe://cluster.local/ns/shop/sa/held", ""},
		"a join token":                   {Caller{Token: join}, "spiffe://cluster.local/ns/shop/sa/web", "proof=join-token"},
		"a join token with a wrong end":  {Caller{Token: join + "x"}, "join-token", "has another secret"},
		"a further token":                {Caller{Token: "sa:system:serviceaccount:shop:pod"}, "spiffe://cluster.local/ns/shop/sa/pod", "proof=token"},
		"a further one with a long name": {Caller{Token: "sa:system:serviceaccount:shop/../kube-system:admin"}, "token", "is not a name of Kubernetes"},
		"a token of nobody":              {Caller{Token: "hello"}, "token", "is none that is known here"},
		"an API server that is away":     {Caller{Token: "away"}, "unreachable", "the API server is away"},
		"nothing":                        {Caller{}, "no-proof", "neither a certificate nor a token"},
	} {
		f.log.Reset()
		c.caller.Address = peer
		issued, err := f.Issue(t.Context(), c.caller, request(t), 0)
		got := issued.Identity.String()
		if err != nil {
			got = cause(err)
		}
		if got != c.want || !strings.Contains(f.log.String(), c.log) {
			t.Errorf("%s: %s, want %s; log %q, want %q", name, got, c.want, f.log, c.log)
		}
		if strings.Contains(f.log.String(), join) {
			t.Errorf("%s: the token is in the log", name)
		}
	}
}

func TestNobodyIsServedBeforeTheTrustDomainIsKnown(t *testing.T) {
	f := newFixture(t)
	join := f.tokens.add(t, "web", true)
	f.domains = nil
	if _, err := f.Issue(t.Context(), Caller{Token: join, Address: peer}, request(t), 0); cause(err) != "not-ready" {
		t.Error(err)
	}
	f.domains = []string{"mesh.test"}
	if issued, err := f.Issue(t.Context(), Caller{Token: join, Address: peer}, request(t), 0); err != nil || issued.Identity.TrustDomain != "mesh.test" {
		t.Errorf("%v, %v: the token must not be used up", issued.Identity, err)
	}
}

func TestAnAuthorityThatHasEnded(t *testing.T) {
	f := newFixture(t)
	f.now = f.authority.Ends().Add(time.Second)
	_, err := f.Issue(t.Context(), Caller{Chains: chain(t, f.authority, "cluster.local"), Address: peer}, request(t), 0)
	if cause(err) != "authority" || !strings.Contains(f.log.String(), "is valid from") {
		t.Errorf("%v, log %s", err, f.log)
	}
}

func TestRates(t *testing.T) {
	f := newFixture(t)
	join := f.tokens.add(t, "web", false)
	csr := request(t)
	ask := func(token string, from netip.Addr) string {
		_, err := f.Issue(t.Context(), Caller{Token: token, Address: from}, csr, 0)
		var busy *Busy
		if errors.As(err, &busy) && busy.After <= 0 {
			t.Errorf("busy for %s", busy.After)
		}
		if err == nil {
			return ""
		}
		return cause(err)
	}
	for i := range ofIdentityAtOnce {
		if got := ask(join, peer); got != "" {
			t.Fatalf("certificate %d: %s", i, got)
		}
	}
	if got := ask(join, peer); got != "rate" {
		t.Errorf("one more of an identity: %q", got)
	}
	if got := ask("sa:system:serviceaccount:shop:pod", peer); got != "" {
		t.Errorf("another identity: %q", got)
	}
	f.now = f.now.Add(time.Second / ofIdentity)
	if got := ask(join, peer); got != "" {
		t.Errorf("later: %q", got)
	}
	for i := range refusalsAtOnce {
		if got := ask("forged", peer); got != "token" {
			t.Fatalf("refusal %d: %q", i, got)
		}
	}
	f.now = f.now.Add(time.Millisecond)
	for _, token := range []string{"forged", join} {
		if got := ask(token, peer); got != "rate" {
			t.Errorf("after %d refusals, %q: %q", refusalsAtOnce, token, got)
		}
	}
	other := netip.MustParseAddr("10.0.0.2")
	if got := ask("forged", other); got != "token" {
		t.Errorf("another address: %q", got)
	}
	if _, err := f.Issue(t.Context(), Caller{Chains: chain(t, f.authority, "cluster.local"), Address: peer}, csr, 0); err != nil {
		t.Errorf("a certificate from the address: %v", err)
	}
	f.now = f.now.Add(time.Second)
	if got := ask("forged", peer); got != "token" {
		t.Errorf("a second later: %q", got)
	}
}

func TestAStormIsAdmittedAtARate(t *testing.T) {
	f := newFixture(t)
	csr := request(t)
	issued := 0
	for i := range 3 * inAllAtOnce {
		_, err := f.Issue(t.Context(), Caller{Token: fmt.Sprintf("sa:system:serviceaccount:shop:a%d", i), Address: peer}, csr, 0)
		var busy *Busy
		switch {
		case err == nil:
			issued++
		case !errors.As(err, &busy):
			t.Fatal(err)
		}
	}
	if issued != inAllAtOnce {
		t.Errorf("%d at once, want %d", issued, inAllAtOnce)
	}
}

func TestPaceIsBounded(t *testing.T) {
	p := newRateLimiter(Rate{time.Second, 2}, 10)
	for i := range 1000 {
		p.take(fmt.Sprint(i), begin)
	}
	if len(p.due) > 10 {
		t.Errorf("%d keys, want at most 10", len(p.due))
	}
	p = newRateLimiter(Rate{time.Second, 2}, 10)
	for _, c := range []struct {
		after time.Duration
		want  time.Duration
	}{{0, 0}, {0, 0}, {0, time.Second}, {500 * time.Millisecond, 500 * time.Millisecond}, {time.Second, 0}, {time.Second, time.Second}, {time.Hour, 0}, {time.Hour, 0}, {time.Hour, time.Second}} {
		if got := p.take("a", begin.Add(c.after)); got != c.want {
			t.Errorf("after %s: wait %s, want %s", c.after, got, c.want)
		}
	}
}

func TestOwnCertificate(t *testing.T) {
	now, domain := begin, "cluster.local"
	authority := newAuthority(t)
	o := &Own{
		Authority: func() *ca.Authority { return authority }, Names: []string{"localhost"}, Life: time.Hour, Now: func() time.Time { return now },
		Identity: func() ca.Identity {
			return ca.Identity{TrustDomain: domain, Namespace: "istio-system", ServiceAccount: "pilot"}
		},
	}
	serial := func() string {
		t.Helper()
		pair, err := o.Certificate()
		check(t, err)
		return pair.Leaf.SerialNumber.String()
	}
	first := serial()
	if now = now.Add(29 * time.Minute); serial() != first {
		t.Error("it is made again before half of its life")
	}
	now = now.Add(2 * time.Minute)
	second := serial()
	if second == first {
		t.Error("it is not made again at half of its life")
	}
	if domain = "mesh.test"; serial() == second {
		t.Error("it is not made again for another trust domain")
	}
}

// A stream's token proves what it would prove for a certificate. A join token is none of a stream. Refusals of an address are counted with those of
// certificates, so that nobody guesses tokens at the other door.
func TestTokensOfStreams(t *testing.T) {
	f := newFixture(t)
	for name, c := range map[string]struct{ token, want, log string }{
		"a service account's": {"sa:x:y:shop:web", "spiffe://cluster.local/ns/shop/sa/web", ""},
		"a join token":        {f.tokens.add(t, "web", false), "join-token", "a join token is for certificates alone"},
		"one that is unknown": {"forged", "token", "none that is known here"},
		"nobody can tell":     {"away", "unreachable", "the API server is away"},
	} {
		f.log.Reset()
		id, err := f.Prove(t.Context(), Caller{Token: c.token, Address: peer})
		got := id.String()
		if err != nil {
			got = cause(err)
		}
		if got != c.want || !strings.Contains(f.log.String(), c.log) || err == nil && f.log.Len() > 0 {
			t.Errorf("%s: %s, %v, want %s\n%s", name, got, err, c.want, f.log)
		}
	}
	for range refusalsAtOnce {
		_, _ = f.Prove(t.Context(), Caller{Token: "forged", Address: peer})
	}
	var busy *Busy
	if _, err := f.Prove(t.Context(), Caller{Token: "sa:x:y:shop:web", Address: peer}); !errors.As(err, &busy) || busy.Cause != "rate" {
		t.Errorf("%v after %d refusals, want that it comes too often", err, refusalsAtOnce)
	}
	if _, err := f.Issue(t.Context(), Caller{Token: "sa:x:y:shop:web", Address: peer}, request(t), 0); !errors.As(err, &busy) || busy.Cause != "rate" {
		t.Errorf("%v at the door of certificates, want that it comes too often", err)
	}
	f.domains = nil
	if _, err := f.Prove(t.Context(), Caller{Token: "sa:x:y:shop:web", Address: peer}); !errors.As(err, &busy) || busy.Cause != "not-ready" {
		t.Errorf("%v before the trust domain is known, want that it is not ready", err)
	}
}

// An API server that is asked for a caller who leaves is not away.
func TestACallerThatLeaves(t *testing.T) {
	f := newFixture(t)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	var busy *Busy
	if _, err := f.Issue(ctx, Caller{Token: "away", Address: peer}, request(t), 0); !errors.As(err, &busy) {
		t.Errorf("a certificate: %v", err)
	}
	if _, err := f.Prove(ctx, Caller{Token: "away", Address: peer}); !errors.As(err, &busy) {
		t.Errorf("a stream: %v", err)
	}
	if f.log.Len() > 0 || testutil.CollectAndCount(f.Server, "pilotlight_ca_refused_total") != 0 {
		t.Errorf("the log has %s, or it is counted", f.log)
	}
	if _, err := f.Issue(ctx, Caller{Token: "forged", Address: peer}, request(t), 0); err == nil || !strings.Contains(f.log.String(), "cause=token") {
		t.Errorf("%v, and the log has %q", err, f.log)
	}
}
