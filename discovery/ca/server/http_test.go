package server

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/internal/binding"
)

func ask(t testing.TB, h http.Handler, change func(*http.Request), body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body))
	r.TLS, r.RemoteAddr = &tls.ConnectionState{}, "10.0.0.1:999"
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func bodyOf(t testing.TB, csr []byte, more string) string {
	t.Helper()
	text, err := json.Marshal(string(csr))
	check(t, err)
	return `{"csr":` + string(text) + more + `}`
}

func TestTheDoorAnswers(t *testing.T) {
	f := newFixture(t)
	join := f.tokens.add(t, "web", false)
	w := ask(t, f, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+join) }, bodyOf(t, request(t), `,"ttl":"500h"`))
	var a answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s, %v", w.Code, w.Body, err)
	}
	block, _ := pem.Decode([]byte(a.Chain))
	leaf, err := x509.ParseCertificate(block.Bytes)
	check(t, err)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: f.authority.Pool(), CurrentTime: begin}); err != nil {
		t.Error(err)
	}
	if a.Identity != "spiffe://cluster.local/ns/shop/sa/web" || leaf.URIs[0].String() != a.Identity || a.Roots != string(f.authority.Roots()) ||
		!a.NotAfter.Equal(leaf.NotAfter) || !a.NotBefore.Equal(leaf.NotBefore) || !a.Issued.Equal(begin) || len(a.Notes) != 1 || !strings.Contains(a.Notes[0], "is cut to 2h0m0s") {
		t.Errorf("%+v", a)
	}
	if w.Header().Get("Cache-Control") != "no-store" {
		t.Error("a cache may keep the answer")
	}
}

// Only a certificate that an agent requests is bound to connections of agents.
func TestCertificatesOfAgentsAreBound(t *testing.T) {
	f := newFixture(t)
	for _, want := range []bool{true, false} {
		join := f.tokens.add(t, "web", false)
		w := ask(t, f, func(r *http.Request) {
			if want {
				*r = *r.WithContext(OfAgent(r.Context()))
			}
			r.Header.Set("Authorization", "Bearer "+join)
		}, bodyOf(t, request(t), ""))
		var a answer
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s, %v", w.Code, w.Body, err)
		}
		block, _ := pem.Decode([]byte(a.Chain))
		leaf, err := x509.ParseCertificate(block.Bytes)
		check(t, err)
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: f.authority.Pool(), CurrentTime: begin}); err != nil || binding.Marked(leaf) != want {
			t.Errorf("bound %t, %v, want %t", binding.Marked(leaf), err, want)
		}
	}
}

func TestTheDoorRefuses(t *testing.T) {
	f := newFixture(t)
	join := f.tokens.add(t, "web", false)
	good := bodyOf(t, request(t), "")
	bearer := func(token string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	for name, c := range map[string]struct {
		change func(*http.Request)
		body   string
		code   int
		want   string
	}{
		"nothing is proved":    {nil, good, 401, `{"error":"refused"}`},
		"a forged token":       {bearer("forged"), good, 401, `{"error":"refused"}`},
		"a wrong join token":   {bearer(join + "x"), good, 401, `{"error":"refused"}`},
		"a token alone":        {func(r *http.Request) { r.Header.Set("Authorization", join) }, good, 401, "want Authorization: Bearer TOKEN"},
		"a basic password":     {func(r *http.Request) { r.SetBasicAuth("web", join) }, good, 401, "want Authorization: Bearer TOKEN"},
		"the API server away":  {bearer("away"), good, 503, `{"error":"not now"}`},
		"no TLS":               {func(r *http.Request) { r.TLS = nil }, good, 403, "want TLS"},
		"GET":                  {func(r *http.Request) { r.Method = http.MethodGet }, good, 405, "want POST"},
		"another path":         {func(r *http.Request) { r.URL.Path = "/v1/certificates/x" }, good, 404, "this port has POST"},
		"a form":               {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, good, 415, "want application/json"},
		"no body":              {bearer(join), "", 400, "is not JSON"},
		"half a body":          {bearer(join), good[:50], 400, "is not JSON"},
		"two bodies":           {bearer(join), good + good, 400, "something follows"},
		"an unknown field":     {bearer(join), bodyOf(t, request(t), `,"san":"x"`), 400, "san"},
		"a wrong ttl":          {bearer(join), bodyOf(t, request(t), `,"ttl":"1 day"`), 400, "want a duration"},
		"a negative ttl":       {bearer(join), bodyOf(t, request(t), `,"ttl":"-1h"`), 400, "want a duration"},
		"no request":           {bearer(join), `{"csr":""}`, 400, "is no PEM"},
		"a very large body":    {bearer(join), `{"csr":"` + strings.Repeat("a", maxBody) + `"}`, 413, "more than 65536 bytes"},
		"a body without proof": {nil, `{"csr":"x"}`, 400, "is no PEM"},
	} {
		w := ask(t, f, c.change, c.body)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s, want %d with %s", name, w.Code, w.Body, c.code, c.want)
		}
		if again := w.Header().Get("Retry-After"); (again != "") != (c.code == 503) {
			t.Errorf("%s: Retry-After %q", name, again)
		}
	}
	for range refusalsAtOnce {
		ask(t, f, bearer("forged"), good)
	}
	w := ask(t, f, bearer("forged"), good)
	if w.Code != 429 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("after many refusals: %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
}

func TestMetricsOfTheDoor(t *testing.T) {
	f := newFixture(t)
	join := f.tokens.add(t, "web", false)
	for _, token := range []string{join, join, "forged", ""} {
		ask(t, f, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }, bodyOf(t, request(t), ""))
	}
	registry := prometheus.NewRegistry()
	check(t, registry.Register(f.Server))
	want := `# HELP pilotlight_ca_issued_total Certificates that were signed, by what proved the identity.
# TYPE pilotlight_ca_issued_total counter
pilotlight_ca_issued_total{proof="join-token"} 2
# HELP pilotlight_ca_refused_total Requests for a certificate that were refused, by cause.
# TYPE pilotlight_ca_refused_total counter
pilotlight_ca_refused_total{cause="no-proof"} 1
pilotlight_ca_refused_total{cause="token"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "pilotlight_ca_issued_total", "pilotlight_ca_refused_total"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(registry, "pilotlight_ca_expiry_timestamp_seconds"); n != 1 || err != nil {
		t.Errorf("%d series of the expiry, %v", n, err)
	}
}

func FuzzDoor(f *testing.F) {
	f.Add("pljoin-a-b", `{"csr":"x","ttl":"1h"}`)
	f.Add("sa:system:serviceaccount:a:b", `{"csr":"-----BEGIN"}`)
	f.Add("", `[[[[`)
	f.Fuzz(func(t *testing.T, token, body string) {
		x := newFixture(t)
		w := ask(t, x, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }, body)
		if !json.Valid(w.Body.Bytes()) || w.Code >= 500 && token != "away" {
			t.Errorf("%q %q: %d %s", token, body, w.Code, w.Body)
		}
		if w.Code == http.StatusOK && !strings.HasPrefix(token, "sa:system:serviceaccount:") {
			t.Errorf("%q is taken", token)
		}
	})
}

// Owners of a certificate get the roots; one that has them is counted, also if another discovery has signed its certificate. Others get nothing.
func TestRoots(t *testing.T) {
	f := newFixture(t)
	own, foreign := chain(t, f.authority, "cluster.local"), chain(t, newAuthority(t), "cluster.local")
	have := fmt.Sprintf("?have=%X", sha256.Sum256(f.authority.Roots()))
	get := func(method, query string, state *tls.ConnectionState) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, RootsPath+query, nil)
		r.TLS = state
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		return w
	}
	counts := func(want int) {
		t.Helper()
		if live, with := f.Issued(f.authority.Roots()); live != want || with != want {
			t.Errorf("%d live, %d with the roots; want %d", live, with, want)
		}
	}
	for name, of := range map[string]struct {
		method string
		chains [][]*x509.Certificate
		code   int
	}{
		"no certificate":         {http.MethodGet, nil, 401},
		"of another authority":   {http.MethodGet, foreign, 401},
		"POST":                   {http.MethodPost, own, 405},
		"a certificate, no have": {http.MethodGet, own, 200},
	} {
		if w := get(of.method, "", &tls.ConnectionState{VerifiedChains: of.chains}); w.Code != of.code {
			t.Errorf("%s: %d %s, want %d", name, w.Code, w.Body, of.code)
		}
	}
	if w := get(http.MethodGet, have, nil); w.Code != 401 {
		t.Errorf("without TLS %d", w.Code)
	}
	state := &tls.ConnectionState{VerifiedChains: own}
	var out struct{ Roots string }
	if w := get(http.MethodGet, "?have=00", state); json.Unmarshal(w.Body.Bytes(), &out) != nil || out.Roots != string(f.authority.Roots()) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	counts(0)
	for range 2 {
		if w := get(http.MethodGet, have, state); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		counts(1)
	}
	f.Config.Authority = func() *ca.Authority { return nil }
	if w := get(http.MethodGet, have, state); w.Code != 503 {
		t.Errorf("without an authority %d", w.Code)
	}
}
