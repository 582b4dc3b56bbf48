package consul

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

const patience = 20 * time.Second

// following is a run of a source.
type following struct {
	t       *testing.T
	updates chan model.Update
	done    chan error
	groups  map[string]model.Group
}

func follower(t *testing.T, s *Source) *following {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &following{t, make(chan model.Update), make(chan error, 1), map[string]model.Group{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.done <- s.Run(ctx, f.updates)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return f
}

// until receives updates until the groups are as wanted.
func (f *following) until(want func(groups map[string]model.Group) bool) {
	f.t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case u := <-f.updates:
			for key, g := range u.Groups {
				if f.groups[key] = g; g.Empty() {
					delete(f.groups, key)
				}
			}
			if want(f.groups) {
				return
			}
		case err := <-f.done:
			f.t.Fatalf("it ended with %v", err)
		case <-deadline:
			f.t.Fatalf("the groups are %+v", f.groups)
		}
	}
}

// fails waits for the end of the run, and checks that its error contains want.
func (f *following) fails(want string) {
	f.t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case u := <-f.updates:
			if len(u.Groups) > 0 {
				f.t.Errorf("it tells %+v, want nothing", u.Groups)
			}
		case err := <-f.done:
			if err == nil || !strings.Contains(err.Error(), want) {
				f.t.Errorf("it ended with %v, want %q", err, want)
			}
			return
		case <-deadline:
			f.t.Fatal("it does not end")
		}
	}
}

// A bad answer ends the run with an error that names the request, and nothing is sent.
func TestBadAnswers(t *testing.T) {
	write := func(status int, header, body string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if key, value, ok := strings.Cut(header, ": "); ok {
				w.Header().Set(key, value)
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
			return true
		}
	}
	only := func(path string, then func(w http.ResponseWriter, r *http.Request) bool) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			return strings.HasPrefix(r.URL.Path, path) && then(w, r)
		}
	}
	for _, tt := range []struct {
		name   string
		broken func(w http.ResponseWriter, r *http.Request) bool
		want   string
	}{
		{"garbage", only(catalogPath, write(200, "X-Consul-Index: 7", "<html>")), "read Consul's services: invalid character '<'"},
		{"garbage for a service", only(servicePath, write(200, "X-Consul-Index: 7", `[{"Node": 1}]`)), `read Consul's service "web": json: cannot unmarshal`},
		{"half an answer", only(statePath, func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("X-Consul-Index", "7")
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `[{"Node": "a`)
			return true
		}), "read Consul's health checks: unexpected EOF"},
		{"null", only(nodesPath, write(200, "X-Consul-Index: 7", "null")), "read Consul's nodes: the answer is null"},
		{"another server", only(catalogPath, write(200, "", "{}")), "has no X-Consul-Index"},
		{"denied", write(403, "", "ACL not found"), "403 (ACL not found)"},
		{"too many requests", write(429, "", "rate limit exceeded"), "429"},
		{"no leader", refuse, "500 (No cluster leader"},
		{"everything hidden", only(catalogPath, func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("X-Consul-LastContact", "0")
			w.Header().Set("X-Consul-Results-Filtered-By-ACLs", "true")
			return write(200, "X-Consul-Index: 7", "{}")(w, r)
		}), "the token may not read any service"},
		{"everything hidden from a request without a token", only(catalogPath, write(200, "X-Consul-Index: 7", "{}")), "the token may not read any service"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			f.put(entry("web", "1", "10.0.0.1", 80))
			f.breakWith(tt.broken)
			follower(t, f.source()).fails(tt.want)
		})
	}
}

// A list of 10 MB is read; an answer that does not end is not.
func TestLongAnswers(t *testing.T) {
	f := newFake(t)
	const services = 50_000
	f.breakWith(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != catalogPath || r.URL.Query().Get("index") != "" {
			return false
		}
		w.Header().Set("X-Consul-Index", "10")
		fmt.Fprint(w, `{"consul": []`)
		for i := range services {
			fmt.Fprintf(w, `, "s-%d": [%q]`, i, strings.Repeat("t", 200))
		}
		fmt.Fprint(w, "}")
		return true
	})
	s := f.source()
	client, idle, err := s.client()
	if err != nil {
		t.Fatal(err)
	}
	defer idle()
	if list, _, err := (asker{client: client, Config: s.Config}).services(t.Context(), question{}); err != nil || len(list) != services+1 {
		t.Errorf("%d services, %v, want %d", len(list), err, services+1)
	}
	response, err := door{next: endlessAnswers{}}.RoundTrip(httptest.NewRequest(http.MethodGet, "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if n, err := io.Copy(io.Discard, response.Body); n != mostBytes || err != errTooLong {
		t.Errorf("%d bytes, %v, want %d, and that the answer is too long", n, err, mostBytes)
	}
}

// endlessAnswers is a Consul whose answers do not end.
type endlessAnswers struct{}

func (endlessAnswers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Body: io.NopCloser(&endless{again: strings.Repeat("x", 1<<20), left: 1 << 20})}, nil
}

// A Consul that accepts connections and sends nothing does not delay the end of a run.
func TestSilence(t *testing.T) {
	f := newFake(t)
	var silent sync.WaitGroup
	silent.Add(lists)
	f.breakWith(func(_ http.ResponseWriter, r *http.Request) bool {
		silent.Done()
		<-r.Context().Done()
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.source().Run(ctx, nil) }()
	silent.Wait()
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
}

// The wait for such a Consul has a limit, both for a list and for a service.
func TestSilenceEnds(t *testing.T) {
	for _, path := range []string{statePath, servicePath} {
		f := newFake(t)
		f.put(entry("web", "1", "10.0.0.1", 80))
		f.breakWith(func(_ http.ResponseWriter, r *http.Request) bool {
			if strings.HasPrefix(r.URL.Path, path) {
				<-r.Context().Done()
			}
			return strings.HasPrefix(r.URL.Path, path)
		})
		s := f.source()
		s.wait, s.silence = 10*time.Millisecond, 500*time.Millisecond
		follower(t, s).fails("context deadline exceeded")
	}
}

// writeToken writes a token as a whole: it is read at any moment.
func writeToken(t *testing.T, path, token string) {
	t.Helper()
	err := os.WriteFile(path+".new", []byte(token), 0o600)
	if err := errors.Join(err, os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

// The token is read for each request, and the environment variables of Consul's own programs are ignored.
func TestTokenAndPlace(t *testing.T) {
	for name, value := range map[string]string{
		"CONSUL_HTTP_TOKEN": "environment", "CONSUL_HTTP_TOKEN_FILE": "/none", "CONSUL_NAMESPACE": "environment", "CONSUL_HTTP_ADDR": "127.0.0.1:1",
		"CONSUL_HTTP_SSL": "true", "CONSUL_PARTITION": "environment",
	} {
		t.Setenv(name, value)
	}
	f := newFake(t)
	f.put(entry("web", "1", "10.0.0.1", 80))
	var mu sync.Mutex
	got := map[string]bool{}
	f.breakWith(func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		got[r.Header.Get("X-Consul-Token")+" "+r.URL.Query().Get("ns")+" "+r.URL.Query().Get("partition")] = true
		return false
	})
	want := func(want string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if len(got) != 1 || !got[want] {
			t.Errorf("requests had token, namespace and partition %v, want %q", got, want)
		}
		clear(got)
	}
	has := func(port uint32) func(map[string]model.Group) bool {
		return func(groups map[string]model.Group) bool {
			return len(groups) == 1 && groups["web"].Services[0].Ports[0].Number == port
		}
	}
	follower(t, f.source()).until(has(80))
	want("  ")

	s := f.source()
	s.Namespace, s.Partition, s.TokenFile = "team", "part", filepath.Join(t.TempDir(), "token")
	follower(t, s).fails("read Consul's token: open " + s.TokenFile)
	writeToken(t, s.TokenFile, "one\n")
	run := follower(t, s)
	run.until(has(80))
	mu.Lock()
	clear(got)
	mu.Unlock()
	writeToken(t, s.TokenFile, "two\n")
	f.put(entry("web", "1", "10.0.0.1", 81))
	run.until(has(81))
	mu.Lock()
	if !got["two team part"] {
		t.Errorf("requests after another token was written had %v", got)
	}
	mu.Unlock()
}

// Over TLS the server's certificate is verified.
func TestTLS(t *testing.T) {
	f := &fake{}
	f.empty()
	server := httptest.NewTLSServer(f)
	t.Cleanup(server.Close)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s := &Source{Config: Config{URL: server.URL}, Log: slog.New(slog.DiscardHandler)}
	follower(t, s).fails("certificate signed by unknown authority")
	s.CACert = filepath.Join(t.TempDir(), "ca.pem")
	follower(t, s).fails("read the roots of Consul's certificate: open")
	if err := os.WriteFile(s.CACert, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	follower(t, s).fails("holds no PEM certificate")
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(s.CACert, root, 0o600); err != nil {
		t.Fatal(err)
	}
	follower(t, s).until(func(groups map[string]model.Group) bool { return len(groups) == 0 })
	s.URL = strings.Replace(server.URL, "https", "http", 1)
	follower(t, s).fails("400")
}

// Consul may request a certificate, which is read for each connection.
func TestClientCertificate(t *testing.T) {
	ca, err := lab.NewAuthority("consul")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{}
	f.empty()
	server := httptest.NewUnstartedServer(f)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool()}
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	s := &Source{Config: Config{URL: server.URL, CACert: filepath.Join(dir, "roots.pem")}, Log: slog.New(slog.DiscardHandler)}
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(s.CACert, root, 0o600); err != nil {
		t.Fatal(err)
	}
	follower(t, s).fails("certificate required")
	s.ClientCert, s.ClientKey = filepath.Join(dir, "cert-chain.pem"), filepath.Join(dir, "key.pem")
	follower(t, s).fails("read the certificate for Consul: open " + s.ClientCert)
	own, err := ca.Issue("discovery", 2)
	if err := errors.Join(err, own.Mount(dir)); err != nil {
		t.Fatal(err)
	}
	follower(t, s).until(func(groups map[string]model.Group) bool { return len(groups) == 0 })
}

// A change of the catalogue that no list names is found by reading each service once, and a named one by reading only
// its service.
func TestRoundsReadOnce(t *testing.T) {
	f := newFake(t)
	const services = 40
	name := func(i int) string { return fmt.Sprintf("s-%d", i) }
	instance := func(i int) *serviceEntry { return entry(name(i), name(i), "10.0.0.1", 80) }
	for i := range services {
		f.put(instance(i))
	}
	run := follower(t, f.source())
	run.until(func(groups map[string]model.Group) bool { return len(groups) == services })
	read := func() (total int) {
		for i := range services {
			total += f.Times(servicePath + name(i))
		}
		return total
	}
	if got := read(); got != services {
		t.Errorf("%d services were read %d times at the start", services, got)
	}
	// Named by its check, which is critical now.
	sick := instance(7)
	sick.Checks[0].Status = statusCritical
	f.change(func() { f.entries[name(7)][name(7)] = sick }, statePath)
	run.until(func(groups map[string]model.Group) bool {
		return groups[name(7)].Services[0].Endpoints[0].Health == model.HealthUnhealthy
	})
	if got := read(); got != services+1 {
		t.Errorf("a check of one service changed, and %d were read", got-services)
	}
	// Another weight: only the index of the catalogue shows it.
	heavy := instance(9)
	heavy.Service.Weights.Passing = 5
	f.change(func() { f.entries[name(9)][name(9)] = heavy }, catalogPath)
	run.until(func(groups map[string]model.Group) bool { return groups[name(9)].Services[0].Endpoints[0].Weight == 5 })
	if got := read(); got > 2*services+1 {
		t.Errorf("one weight changed, and %d services were read, want each once at most", got-services-1)
	}
}

// Indexes that go backwards, as after a snapshot was restored, are treated as another history.
func TestIndexesGoBackwards(t *testing.T) {
	f := newFake(t)
	f.put(entry("old", "2", "10.0.0.1", 80))
	f.put(entry("both", "1", "10.0.0.1", 80))
	run := follower(t, f.source())
	run.until(func(groups map[string]model.Group) bool { return len(groups) == 2 })
	f.change(func() {
		delete(f.entries, "old")
		changed := entry("both", "1", "10.0.0.2", 80)
		f.entries["both"]["1"] = changed
		f.entries["new"] = map[string]*serviceEntry{"3": entry("new", "3", "10.0.0.3", 80)}
		for list := range f.index {
			f.index[list] = 3
		}
	})
	run.until(func(groups map[string]model.Group) bool {
		return len(groups) == 2 && groups["new"].Len() == 1 && groups["both"].Services[0].Endpoints[0].Address == "10.0.0.2"
	})
}

// A request that waits, and whose connection breaks, ends the run: the next one asks for everything. Repeated as it is, it would
// wait for the index of a Consul that has lost its data meanwhile.
func TestABrokenWaitIsNotRepeated(t *testing.T) {
	f := newFake(t)
	f.put(entry("web", "1", "10.0.0.1", 80))
	var waits atomic.Int64
	f.breakWith(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != catalogPath || r.URL.Query().Get("index") == "" || waits.Add(1) > 1 {
			return false
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return true
		}
		conn.Close()
		return true
	})
	run := follower(t, f.source())
	select {
	case err := <-run.done:
		wants(t, "the run", err, "EOF")
	case <-run.updates: // of the first answers
		wants(t, "the run", <-run.done, "EOF")
	}
	if n := waits.Load(); n != 1 {
		t.Errorf("%d requests waited, want one", n)
	}
}

// An instance that is left out is logged once.
func TestLeftOutIsSaid(t *testing.T) {
	f := newFake(t)
	proxy := entry("web-sidecar-proxy", "1", "10.0.0.1", 21000)
	proxy.Service.Kind = kindProxy
	f.put(proxy)
	var log bytes.Buffer
	s := f.source()
	s.Log = slog.New(slog.NewTextHandler(&log, nil))
	ctx, cancel := context.WithCancel(t.Context())
	updates, done := make(chan model.Update), make(chan error, 1)
	go func() { done <- s.Run(ctx, updates) }()
	if u := <-updates; len(u.Groups) != 0 || !u.Synced {
		t.Errorf("it tells %+v", u)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := log.String(); strings.Count(got, "service=web-sidecar-proxy") != 1 {
		t.Errorf("the log is %q", got)
	}
}

// A new token that may see more is used even if nothing changes in Consul: the index of the lists stays the same.
func TestATokenThatSeesMore(t *testing.T) {
	f := newFake(t)
	f.put(entry("web", "1", "10.0.0.1", 80))
	f.put(entry("vault", "1", "10.0.0.2", 80))
	f.breakWith(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("X-Consul-Token") != "some" || r.URL.Path != catalogPath {
			return false
		}
		if r.URL.Query().Get("index") != "" {
			select {
			case <-time.After(50 * time.Millisecond): // the wait for a change is over
			case <-r.Context().Done():
			}
		}
		w.Header().Set("X-Consul-Index", fmt.Sprint(f.indexOf(catalogPath)))
		w.Header().Set("X-Consul-Results-Filtered-By-ACLs", "true")
		fmt.Fprint(w, `{"consul": [], "web": []}`)
		return true
	})
	s := f.source()
	s.TokenFile = filepath.Join(t.TempDir(), "token")
	writeToken(t, s.TokenFile, "some")
	run := follower(t, s)
	run.until(func(groups map[string]model.Group) bool { return len(groups) == 1 && len(groups["web"].Services) == 1 })
	writeToken(t, s.TokenFile, "all")
	run.until(func(groups map[string]model.Group) bool {
		return len(groups) == 2 && len(groups["vault"].Services) == 1
	})
}

// A redirection by Consul is not followed: the token would be sent there.
func TestRedirections(t *testing.T) {
	var stolen atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stolen.Store(r.Header.Get("X-Consul-Token") != "")
	}))
	t.Cleanup(elsewhere.Close)
	for _, to := range []string{elsewhere.URL + catalogPath, catalogPath} {
		f := newFake(t)
		f.breakWith(func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, to, http.StatusFound)
			return true
		})
		s := f.source()
		s.TokenFile = filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(s.TokenFile, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		follower(t, s).fails("which is not followed: want the URL of Consul itself")
	}
	if stolen.Load() {
		t.Error("the token was sent elsewhere")
	}
}

// An endless answer that arrives a byte at a time is aborted.
func TestBytesThatDrip(t *testing.T) {
	f := newFake(t)
	f.breakWith(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != catalogPath {
			return false
		}
		w.Header().Set("X-Consul-Index", "7")
		fmt.Fprint(w, `{"consul": [`)
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-tick.C:
				fmt.Fprint(w, " ")
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				tick.Stop()
				return true
			}
		}
	})
	s := f.source()
	s.wait, s.silence = 10*time.Millisecond, 300*time.Millisecond
	follower(t, s).fails("context deadline exceeded")
}
