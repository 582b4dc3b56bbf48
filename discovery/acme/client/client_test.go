package client

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/acme"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// authority is an issuer that gives accounts, and answers an order in some way.
type authority struct {
	*httptest.Server
	order func(w http.ResponseWriter)

	mu    sync.Mutex
	asked []string // paths
}

func newAuthority(t *testing.T, order func(w http.ResponseWriter)) *authority {
	a := &authority{order: order}
	a.Server = httptest.NewTLSServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.asked = append(a.asked, r.URL.Path)
	a.mu.Unlock()
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Replay-Nonce", "n")
	switch r.URL.Path {
	case "/dir":
		fmt.Fprintf(w, `{"newAccount": %q, "newOrder": %q, "newNonce": %q}`, a.URL+"/account", a.URL+"/order", a.URL+"/nonce")
	case "/account":
		w.Header().Set("Location", a.URL+"/account/1")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"status": "valid"}`)
	case "/order":
		a.order(w)
	}
}

func (a *authority) count(path string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.asked {
		if p == path {
			n++
		}
	}
	return n
}

// start runs a Client with one gateway that needs a certificate of a.test. said receives its notes whenever they change.
func start(t *testing.T, a *authority, dir string) (c *Client, said chan []model.Note) {
	t.Helper()
	roots := filepath.Join(t.TempDir(), "roots.pem")
	check(t, os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw}), 0o600))
	mesh := model.New(slices.Values([]model.Group{{Objects: []*model.Object{{
		Meta: model.Meta{Kind: "Gateway", Namespace: "edge", Name: "g"},
		Spec: &networking.Gateway{Selector: map[string]string{"a": "b"}, Servers: []*networking.Server{
			{Port: &networking.Port{Number: 443, Name: "s", Protocol: "HTTPS"}, Hosts: []string{"a.test"}, Tls: &networking.ServerTLSSettings{CredentialName: "acme://lets", Mode: networking.ServerTLSSettings_SIMPLE}},
			{Port: &networking.Port{Number: 80, Name: "h", Protocol: "HTTP"}, Hosts: []string{"*"}},
		}},
	}}}}))
	said = make(chan []model.Note, 100)
	c, err := New(Config{
		Issuers: Issuers{{Name: "lets", URL: a.URL + "/dir", Roots: roots}}, Inside: true, Store: Directory(dir), Accounts: map[string][]string{"edge": {"gw"}},
		Mesh: func() *model.Mesh { return mesh },
		Proxies: func() []model.Proxy {
			return []model.Proxy{{Namespace: "edge", Labels: map[string]string{"a": "b"}, Gateway: true}}
		},
		Lagging: func([]int64, string, string) map[int64]string { return nil },
		Changed: func() { said <- c.Notes() }, Log: slog.New(slog.DiscardHandler),
	})
	check(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	c.Look()
	return c, said
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// next returns the next notes that are of a code.
func next(t *testing.T, said chan []model.Note, code model.Code) model.Note {
	t.Helper()
	for limit := time.After(30 * time.Second); ; {
		select {
		case notes := <-said:
			if len(notes) > 0 && notes[0].Code == code {
				return notes[0]
			}
		case <-limit:
			t.Fatalf("no note %s", code)
		}
	}
}

// A limit of the issuer is kept, by a restart too.
func TestLimitIsKept(t *testing.T) {
	a := newAuthority(t, func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "7200")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many certificates"}`)
	})
	dir := filepath.Join(t.TempDir(), "state", "acme")
	for range 2 {
		began := time.Now()
		t.Run("", func(t *testing.T) {
			c, said := start(t, a, dir)
			note := next(t, said, model.ACMEWaits)
			if !strings.Contains(note.Message, "too many certificates") {
				t.Errorf("the issuer's words are not in %q", note.Message)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			r := c.records["edge lets a.test"]
			if r.Next.Before(began.Add(time.Hour)) || !r.Limited {
				t.Errorf("asked again at %s", r.Next)
			}
		})
	}
	if n := a.count("/order"); n != 1 {
		t.Errorf("%d orders, want 1", n)
	}
	entries, err := os.ReadDir(dir)
	check(t, err)
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v: %v", e.Name(), info.Mode(), err)
		}
	}
}

// Tries are shared between the namespaces of Gateways, and renewals come first.
func TestTriesAreShared(t *testing.T) {
	c := &Client{records: map[string]acme.Record{}, under: map[string]bool{}}
	for _, of := range []struct {
		namespace string
		n         int
	}{{"evil", 100}, {"shop", 2}, {"bank", 2}} {
		for i := range of.n {
			s := acme.Set{Namespace: "edge", Hosts: []string{fmt.Sprint(of.namespace, i)}, Places: []acme.Place{{Meta: model.Meta{Namespace: of.namespace}}}}
			c.sets = append(c.sets, s)
		}
	}
	c.records[c.sets[103].Key()] = acme.Record{Hosts: []string{"bank1"}, Chain: []byte("c"), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now()}
	begun := func() (out []string) {
		for _, r := range c.due(time.Now()) {
			if len(r.Hosts) > 0 {
				out = append(out, r.Hosts[0])
			}
		}
		return out
	}
	if first := begun(); len(first) != 1 || first[0] != "bank1" { // the records of others are zero
		t.Errorf("%q are renewed", first)
	}
	of := map[string]int{}
	for key := range c.under {
		of[strings.TrimRight(strings.TrimPrefix(key, "edge  "), "0123456789")]++
	}
	if want := map[string]int{"bank": 1, "evil": 4, "shop": 2}; !maps.Equal(of, want) {
		t.Errorf("under way are %v, want %v", of, want)
	}
}

// What cannot be written down is not asked.
func TestNothingIsAskedThatCannotBeKept(t *testing.T) {
	a := newAuthority(t, func(http.ResponseWriter) {})
	dir := filepath.Join(t.TempDir(), "acme")
	check(t, os.MkdirAll(filepath.Join(dir, fileOf(acme.Set{Namespace: "edge", Issuer: "lets", Hosts: []string{"a.test"}})+".new", "full"), 0o700)) // in the place of the new file
	_, said := start(t, a, dir)
	if note := next(t, said, model.ACMERefused); !strings.Contains(note.Message, dir) {
		t.Errorf("%q does not name the file", note.Message)
	}
	if len(a.asked) > 0 {
		t.Errorf("the issuer was asked: %q", a.asked)
	}
}

// A file that cannot be read may be of an order: lines and notes name the file, and the client orders nothing for its set.
func TestBrokenStateOrdersNothing(t *testing.T) {
	for name, text := range map[string]string{"half": `{"Namespace": "ed`, "other": `{"Namespace": "bank"}`} {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t, func(http.ResponseWriter) {})
			dir := filepath.Join(t.TempDir(), "acme")
			check(t, os.Mkdir(dir, 0o700))
			file := filepath.Join(dir, fileOf(acme.Set{Namespace: "edge", Issuer: "lets", Hosts: []string{"a.test"}}))
			check(t, os.WriteFile(file, []byte(text), 0o600))
			c, said := start(t, a, dir)
			if note := next(t, said, model.ACMERefused); !strings.Contains(note.Message, file) {
				t.Errorf("%q does not name the file", note.Message)
			}
			if lines := c.Lines(); len(lines) == 0 || !strings.Contains(lines[0], file) || len(a.asked) > 0 {
				t.Errorf("lines %q, asked %q", lines, a.asked)
			}
		})
	}
}

// One process asks.
func TestLockOfAnother(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "acme")
	other := Directory(dir)
	_, err := other.Term(t.Context())
	check(t, err)
	defer other.Close()
	if _, err := Directory(dir).Term(t.Context()); err == nil || !strings.Contains(err.Error(), "another discovery") {
		t.Errorf("the lock is had twice: %v", err)
	}
	check(t, os.Chmod(dir, 0o755))
	if _, err := Directory(dir).Term(t.Context()); err == nil || !strings.Contains(err.Error(), "0755") {
		t.Errorf("a directory that others read: %v", err)
	}
}

// While the hosts of a server change, the certificate before stays.
func TestLastGoodStays(t *testing.T) {
	old := acme.Record{Namespace: "edge", Issuer: "lets", Hosts: []string{"a.test"}, Secrets: []string{"x"}}.Issued([]byte("key"), []byte("old"), time.Now(), time.Now().Add(time.Hour))
	c := &Client{secrets: newSecrets(map[string][]string{"edge": {"gw"}}), challenges: newChallenges(), records: map[string]acme.Record{old.Set().Key(): old}}
	c.secrets.begin()
	served := func() string {
		for _, g := range c.secrets.all() {
			for _, s := range g.Secrets {
				if s.From.IsZero() || !s.Until.After(s.From) {
					t.Errorf("it lives from %s to %s", s.From, s.Until)
				}
				return string(s.Certificate) + " " + strings.Join(s.Accounts, ",")
			}
		}
		return ""
	}
	c.serveLocked()
	if got := served(); got != "old gw" {
		t.Errorf("at the start %q", got)
	}
	c.sets = []acme.Set{{Namespace: "edge", Issuer: "lets", Hosts: []string{"a.test", "b.test"}, Secrets: []string{"x"}}}
	c.serveLocked()
	if got := served(); got != "old gw" {
		t.Errorf("without the new one %q", got)
	}
	now := acme.Record{Namespace: "edge", Issuer: "lets", Hosts: []string{"a.test", "b.test"}, Secrets: []string{"x"}}.Issued([]byte("key"), []byte("new"), time.Now(), time.Now().Add(time.Hour))
	c.records[now.Set().Key()] = now
	c.serveLocked()
	if got := served(); got != "new gw" {
		t.Errorf("with the new one %q", got)
	}
}

func TestParseIssuers(t *testing.T) {
	good := "lets=https://a.test/dir,email=ops@a.test,roots=/r.pem;inner=https://10.0.0.1:14000/dir"
	all, err := ParseIssuers(good)
	if err != nil || all.String() != good || !slices.Equal(all.Names(), []string{"lets", "inner"}) {
		t.Errorf("%v: %v", all, err)
	}
	for text, want := range map[string]string{
		"lets=http://a.test/dir": "want https://", "Lets=https://a.test": "small letters", "https://a.test": "small letters",
		"lets=https://u:p@a.test": "without a password", "lets=https://a.test,mail=x": "want email=ADDRESS", "a=https://a.test;a=https://b.test": "twice",
	} {
		if _, err := ParseIssuers(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Requests go over https alone, to addresses of the Internet unless the operator says otherwise, and read bounded answers.
func TestRequestsAreGuarded(t *testing.T) {
	a := newAuthority(t, nil)
	at, err := newAccount(Issuer{Name: "lets", URL: a.URL}, Directory(filepath.Join(t.TempDir(), "acme")), false)
	check(t, err)
	if _, err := at.http.Get(a.URL); err == nil || !strings.Contains(err.Error(), "--acmeInside") {
		t.Errorf("an address inside: %v", err)
	}
	if _, err := at.http.Get("http://a.test/"); err == nil || !strings.Contains(err.Error(), "want https") {
		t.Errorf("plain text: %v", err)
	}
	long := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxAnswer+1)) }))
	defer long.Close()
	answer, err := (&http.Client{Transport: guarded{long.Client().Transport, Directory(filepath.Join(t.TempDir(), "acme"))}}).Get(long.URL)
	check(t, err)
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a long answer: %v", err)
	}
}
