package traffic

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/discovery/ca/server"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// named takes the text of a token for an account of the namespace default.
type named struct{}

func (named) Identify(_ context.Context, token, domain string) (ca.Identity, error) {
	return ca.NewIdentity(domain, "default", token)
}

// visit is one question at the door, and what was answered.
type visit struct {
	arrived, answered time.Time
	code              int
	after             time.Duration // Retry-After
}

// slowDoor is the door of an authority that signs one certificate every so often. It notes who comes when, and lets nobody in before all are there.
type slowDoor struct {
	desk    *server.Server
	at      string // host:port
	roots   string // file
	callers int
	whole   chan struct{} // closed when all have come

	mu     sync.Mutex
	came   map[string]bool
	visits map[string][]visit // by the caller's token
}

func newSlowDoor(t *testing.T, every time.Duration, callers int) *slowDoor {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	files, err := ca.NewRoot("slow", ca.RootLife, time.Now())
	check(err)
	authority, err := ca.Read(files, time.Now())
	check(err)
	own, err := authority.Pair([]string{"127.0.0.1"}, ca.Identity{TrustDomain: "cluster.local", Namespace: "istio-system", ServiceAccount: "discovery"}, time.Hour, time.Now())
	check(err)
	d := &slowDoor{
		callers: callers, whole: make(chan struct{}), came: map[string]bool{}, visits: map[string][]visit{}, roots: filepath.Join(t.TempDir(), "root-cert.pem"),
	}
	check(os.WriteFile(d.roots, authority.Roots(), 0o600))
	d.desk = server.New(server.Config{
		Authority: func() *ca.Authority { return authority }, Terms: ca.Terms{Default: time.Hour, Most: time.Hour}, Further: []server.Authenticator{named{}},
		TrustDomains: func() []string { return []string{"cluster.local"} }, Rate: server.Rate{Every: every, AtOnce: 1}, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{*own}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: authority.Pool()})
	check(err)
	d.at = listener.Addr().String()
	server := &http.Server{Handler: d}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return d
}

func (d *slowDoor) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if r.URL.Path != server.Path {
		d.desk.ServeHTTP(out, r)
		return
	}
	v, who, answer := visit{arrived: time.Now()}, r.Header.Get("Authorization"), httptest.NewRecorder()
	if !d.await(r.Context(), who) {
		return
	}
	d.desk.ServeHTTP(answer, r)
	v.answered, v.code = time.Now(), answer.Code
	if seconds, err := strconv.Atoi(answer.Header().Get("Retry-After")); err == nil {
		v.after = time.Duration(seconds) * time.Second
	}
	d.mu.Lock()
	d.visits[who] = append(d.visits[who], v)
	d.mu.Unlock()
	maps.Copy(out.Header(), answer.Header())
	out.WriteHeader(answer.Code)
	_, _ = out.Write(answer.Body.Bytes())
}

// await waits until all callers have come, and reports whether they have.
func (d *slowDoor) await(ctx context.Context, who string) bool {
	d.mu.Lock()
	if !d.came[who] {
		d.came[who] = true
		if len(d.came) == d.callers {
			close(d.whole)
		}
	}
	d.mu.Unlock()
	select {
	case <-d.whole:
		return true
	case <-ctx.Done():
		return false
	}
}

// judge returns an error unless each caller has a certificate, and counts how often one was sent away for longer than an agent waits by itself. It says
// what was wrong, such as a caller that has come before the time of its Retry-After.
func (d *slowDoor) judge() (wrong []string, away int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	served := 0
	for who, visits := range d.visits {
		for n, v := range visits {
			switch {
			case v.code == http.StatusOK:
				served++
			case v.code != http.StatusTooManyRequests || v.after <= 0:
				wrong = append(wrong, fmt.Sprintf("%s is answered %d with Retry-After %s", who, v.code, v.after))
			case v.after > time.Second:
				away++
			}
			if n > 0 && v.arrived.Sub(visits[n-1].answered) < visits[n-1].after {
				wrong = append(wrong, fmt.Sprintf("%s comes again after %s, and its Retry-After was %s", who, v.arrived.Sub(visits[n-1].answered), visits[n-1].after))
			}
		}
	}
	if served != d.callers {
		err = fmt.Errorf("%d of %d agents have a certificate", served, d.callers)
	}
	return wrong, away, err
}

// Agents that begin at once are more than an authority signs. Those that it sends away come again when it has told them, not when their own
// back-off would let them, and all get a certificate.
func TestAgentsComeAgainWhenTheyAreTold(t *testing.T) {
	t.Parallel()
	const agents, every = 3, 3 * time.Second // an agent waits a second by itself
	l, d := lab.NewTrial(t), newSlowDoor(t, every, agents)
	_, port, err := net.SplitHostPort(d.at)
	l.Check(err)
	for n := range agents {
		name := fmt.Sprint("agent-", n)
		token := filepath.Join(t.TempDir(), "token")
		l.Check(os.WriteFile(token, []byte(name), 0o600))
		s, err := lab.Lab{Bin: l.Bin, Envoy: l.Envoy, Dir: lab.ShortDir(t)}.Sidecar(lab.Workload{
			Name: name, App: name, IP: fmt.Sprint("127.0.0.", 2+n), Discovery: fmt.Sprint("127.0.0.1:", lab.Port(t)), // nobody is there
			Flags: []string{"--caAddress", "127.0.0.1:" + port, "--caRoots", d.roots, "--caToken", token, "--statusPort", "0"},
		})
		l.Check(err)
		t.Cleanup(func() {
			s.Stop(lab.StopLimit)
			if t.Failed() {
				t.Logf("%s:\n%s", name, lab.Tail(s.Log()))
			}
		})
	}
	l.Check(lab.Eventually(patience, func() error { _, _, err := d.judge(); return err }))
	wrong, away, _ := d.judge()
	for _, text := range wrong {
		t.Error(text)
	}
	if away < agents-1 {
		t.Errorf("%d answers had a Retry-After of more than a second, want one for each agent but the first: %v", away, d.visits)
	}
}
