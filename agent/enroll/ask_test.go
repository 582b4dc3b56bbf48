package enroll

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Roots are asked for by the certificate, with the hash of those that are there.
func TestAskForRoots(t *testing.T) {
	mesh, err := lab.NewAuthority("mesh")
	check(t, err)
	identity, err := mesh.Issue("spiffe://cluster.local/ns/istio-system/sa/pilot", 2)
	check(t, err)
	pair, err := identity.Pair()
	check(t, err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch have := r.URL.Query().Get("have"); {
		case r.Method != http.MethodGet || r.URL.Path != "/v1/roots" || len(r.TLS.PeerCertificates) != 1:
			w.WriteHeader(http.StatusTeapot)
		case have == fmt.Sprintf("%x", sha256.Sum256([]byte("new"))):
			w.WriteHeader(http.StatusNotModified)
		case have == fmt.Sprintf("%x", sha256.Sum256([]byte("old"))):
			_, _ = w.Write([]byte(`{"roots":"new"}`))
		default:
			w.WriteHeader(http.StatusNotFound) // an older discovery
			_, _ = w.Write([]byte(`{"error":"this port has POST"}`))
		}
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	defer s.Close()
	at, err := url.Parse(s.URL)
	check(t, err)
	target := server{at.Hostname(), at.Port(), "spiffe://cluster.local/ns/istio-system/sa/pilot"}
	for have, of := range map[string]struct{ want, fault string }{"new": {}, "old": {want: "new"}, "other": {fault: "answers 404 Not Found: this port has POST"}} {
		got, err := target.roots(t.Context(), mesh.PEM(), &held{pair: pair, roots: []byte(have)})
		if string(got) != of.want || (err != nil) != (of.fault != "") || err != nil && !strings.Contains(err.Error(), of.fault) {
			t.Errorf("%s: %q, %v; want %q, %q", have, got, err, of.want, of.fault)
		}
	}
}

func TestAsk(t *testing.T) {
	mesh, err := lab.NewAuthority("mesh")
	check(t, err)
	other, err := lab.NewAuthority("other")
	check(t, err)
	id, err := url.Parse("spiffe://cluster.local/ns/istio-system/sa/pilot")
	check(t, err)
	identity, err := mesh.IssueWith("ca.test", 2, func(c *x509.Certificate) { c.URIs = []*url.URL{id} })
	check(t, err)
	pair, err := identity.Pair()
	check(t, err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ CSR string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		block, _ := pem.Decode([]byte(body.CSR))
		switch token := r.Header.Get("Authorization"); {
		case r.URL.Path != "/v1/certificates" || r.Method != http.MethodPost || block == nil || r.ProtoMajor != 1:
			w.WriteHeader(http.StatusTeapot)
		case token == "Bearer busy":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"error":"too many requests"}`))
		case token == "Bearer years":
			w.Header().Set("Retry-After", "99999999999")
			w.WriteHeader(http.StatusServiceUnavailable)
		case token == "Bearer html":
			_, _ = w.Write([]byte("<html>"))
		case token == "Bearer large":
			_, _ = w.Write([]byte(`{"chain":"` + strings.Repeat("a", 2*maxAnswer) + `"}`))
		case token == "Bearer good":
			_, _ = w.Write([]byte(`{"chain":"c","roots":"r","later":1}`))
		default:
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":"refused"}`))
		}
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1", "h2"}}
	s.StartTLS()
	defer s.Close()
	at, err := url.Parse(s.URL)
	check(t, err)
	csr, err := (&pending{directory: &directory{path: t.TempDir()}}).request(nil)
	check(t, err)
	for name, c := range map[string]struct {
		identity, token string
		roots           []byte
		want            string // of the error
		after           time.Duration
	}{
		"an answer":             {id.String(), "good", mesh.PEM(), "", 0},
		"refused":               {id.String(), "bad", mesh.PEM(), "answers 401 Unauthorized: refused", 0},
		"busy":                  {id.String(), "busy", mesh.PEM(), "too many requests", 7 * time.Second},
		"busy for years":        {id.String(), "years", mesh.PEM(), "no reason is given", 5 * time.Minute},
		"no JSON":               {id.String(), "html", mesh.PEM(), "parse the answer", 0},
		"a very long answer":    {id.String(), "large", mesh.PEM(), "parse the answer", 0},
		"a stranger's roots":    {id.String(), "good", other.PEM(), "unknown authority", 0},
		"another's identity":    {"spiffe://cluster.local/ns/istio-system/sa/other", "good", mesh.PEM(), "its certificate is for spiffe://cluster.local/ns/istio-system/sa/pilot, ca.test, want 127.0.0.1 or", 0},
		"no root":               {id.String(), "good", []byte("x"), "want PEM in --caRoots", 0},
		"nothing listens there": {id.String(), "closed", mesh.PEM(), "connection refused", 0},
	} {
		target := server{at.Hostname(), at.Port(), c.identity}
		if c.token == "closed" {
			target.port = "1"
		}
		a, err := target.ask(t.Context(), csr, c.roots, nil, c.token)
		switch {
		case c.want == "" && (err != nil || a.Chain != "c" || a.Roots != "r"):
			t.Errorf("%s: %+v, %v", name, a, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if u, ok := err.(*unsigned); c.after > 0 && (!ok || u.after != c.after) {
			t.Errorf("%s: %v, want to wait %s", name, err, c.after)
		}
	}
}

// A machine whose clock is ten minutes slow, or fifty fast, gets its certificates, with a note; one that is hours off says by how much.
func TestClocks(t *testing.T) {
	for name, of := range map[string]struct {
		fast time.Duration // of this machine
		held bool
		note string
	}{
		"right":        {0, true, ""},
		"a minute":     {time.Minute, true, ""},
		"minutes slow": {-10 * time.Minute, true, "the clock of this machine is 10m0s slow"},
		"fifty fast":   {50 * time.Minute, true, "the clock of this machine is 50m0s fast"},
		"hours slow":   {-3 * time.Hour, false, "the clock of this machine is 3h0m0s slow"},
		"days fast":    {30 * time.Hour, false, "the clock of this machine is 30h0m0s fast"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAuthority(t, 24*time.Hour)
				f := open(t, a, t.TempDir(), "token")
				f.ask = func(ctx context.Context, csr, roots []byte, with *tls.Certificate, token string) (answer, error) {
					a.mu.Lock()
					a.ahead = -of.fast
					a.mu.Unlock()
					out, err := a.ask(ctx, csr, roots, with, token)
					out.Issued = time.Now().Add(-of.fast)
					return out, err
				}
				f.run(20*time.Minute, nil)
				if (f.serial() != 0) != of.held {
					t.Errorf("a certificate is held: %t\n%s", f.serial() != 0, f.log)
				}
				told := f.log.String()
				if !of.held {
					told = f.Fault()
				}
				if of.note == "" && strings.Contains(told, "the clock") || !strings.Contains(told, of.note) {
					t.Errorf("it says %q, want %q", told, of.note)
				}
			})
		})
	}
}

// The authority's own certificate is not valid at the machine's time: the error tells of the clock.
func TestClockOfTheHandshake(t *testing.T) {
	mesh, err := lab.NewAuthority("mesh")
	check(t, err)
	identity, err := mesh.Issue("ca.test", 2)
	check(t, err)
	pair, err := identity.Pair()
	check(t, err)
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	check(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(mesh.PEM())
	for want, at := range map[string]time.Time{
		"": leaf.NotBefore.Add(time.Minute), "is hours slow, by 3h0m0s at least": leaf.NotBefore.Add(-3 * time.Hour), "is hours fast, by 2h0m0s at least": leaf.NotAfter.Add(2 * time.Hour),
	} {
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at})
		if got := fmt.Sprint(withClock(err, leaf, at)); (err == nil) != (want == "") || !strings.Contains(got, want) {
			t.Errorf("at %s: %s, want %q", at, got, want)
		}
	}
}
