package server

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

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
		if live, with := f.Census(f.authority.Roots()); live != want || with != want {
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
