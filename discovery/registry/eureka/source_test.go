package eureka

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/sourcetest"
)

const patience = 20 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func (f *fake) source(further ...*fake) *Source {
	c := Config{URLs: []string{f.URL + "/eureka"}, Interval: 10 * time.Millisecond}
	for _, other := range further {
		c.URLs = append(c.URLs, other.URL+"/eureka/")
	}
	s := New(c, slog.New(slog.DiscardHandler))
	s.settle = 0
	return s
}

func refuse(w http.ResponseWriter, _ *http.Request) bool {
	http.Error(w, "away", http.StatusServiceUnavailable)
	return true
}

func TestContract(t *testing.T) {
	f := newFake(t) // one for all, since each test checks for leaked goroutines
	sourcetest.Run(t, func(t *testing.T) sourcetest.Registry {
		f.empty()
		return sourcetest.Registry{
			Source: f.source(),
			Host:   func(name string) string { return name + ".service.eureka" },
			Put:    func(name, address string) { f.put(instanceOf(name, name+"-1", address, 8080)) },
			Delete: func(name string) { f.remove(name, name+"-1") },
			Spoil:  func(name string) { f.put(instanceOf(name, name+"-1", "10.0.0.1", 0)) },
			Break:  func() { f.BreakWith(refuse) },
			Mend:   func() { f.BreakWith(nil) },
			Touch:  func() {}, // each request is answered as if something may have changed
		}
	})
}

// following is a run of a source.
type following struct {
	t       *testing.T
	updates chan model.Update
	done    chan error
	stop    func()
	groups  map[string]model.Group
}

func follower(t *testing.T, s *Source) *following {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &following{t: t, updates: make(chan model.Update), done: make(chan error, 1), groups: map[string]model.Group{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.done <- s.Run(ctx, f.updates)
	}()
	f.stop = func() { cancel(); <-ended }
	t.Cleanup(f.stop)
	return f
}

// until receives updates until the services and faults are as wanted, a line for each host.
func (f *following) until(want ...string) {
	f.t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case u := <-f.updates:
			for host, g := range u.Groups {
				if f.groups[host] = g; g.Empty() {
					delete(f.groups, host)
				}
			}
			if f.has(want) {
				return
			}
		case err := <-f.done:
			f.t.Fatalf("it ended with %v", err)
		case <-deadline:
			f.t.Fatalf("the groups are %+v, want %q", f.groups, want)
		}
	}
}

func (f *following) has(want []string) bool {
	for _, line := range want {
		host, rest, _ := strings.Cut(line, " ")
		got := ""
		for _, s := range f.groups[host].Services {
			for _, e := range s.Endpoints {
				got += e.Address + " " + e.Health.String() + " "
			}
		}
		if got += fmt.Sprintf("%d faults", len(f.groups[host].Faults)); got != rest {
			return false
		}
	}
	return len(f.groups) == len(want)
}

// next receives an update, and fails the test if the source ends before.
func (f *following) next() (u model.Update) {
	f.t.Helper()
	select {
	case u = <-f.updates:
	case err := <-f.done:
		f.t.Fatalf("it ended with %v", err)
	}
	return u
}

func (f *following) fails(want string) {
	f.t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case u := <-f.updates:
			f.t.Errorf("it tells %+v, want nothing", u)
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

// An instance that a restarted server does not have yet is served, also after a restart of the source; one that it has
// removed is not.
func TestARestartedServerDoesNotWipe(t *testing.T) {
	f := newFake(t)
	f.put(instanceOf("a", "a-1", "10.0.0.1", 80))
	f.put(instanceOf("a", "a-2", "10.0.0.2", 80))
	f.put(instanceOf("b", "b-1", "10.0.0.3", 80))
	s := f.source()
	run := follower(t, s)
	run.until("a.service.eureka 10.0.0.1 healthy 10.0.0.2 healthy 0 faults", "b.service.eureka 10.0.0.3 healthy 0 faults")
	f.empty() // while it runs
	run.until("a.service.eureka 10.0.0.1 healthy 10.0.0.2 healthy 2 faults", "b.service.eureka 10.0.0.3 healthy 1 faults")
	f.put(instanceOf("a", "a-1", "10.0.0.1", 80))
	run.until("a.service.eureka 10.0.0.1 healthy 10.0.0.2 healthy 1 faults", "b.service.eureka 10.0.0.3 healthy 1 faults")
	run.stop()
	f.empty() // while the source is stopped
	run = follower(t, s)
	run.until("a.service.eureka 10.0.0.1 healthy 10.0.0.2 healthy 2 faults", "b.service.eureka 10.0.0.3 healthy 1 faults")
	f.put(instanceOf("b", "b-1", "10.0.0.3", 80))
	run.until("a.service.eureka 10.0.0.1 healthy 10.0.0.2 healthy 2 faults", "b.service.eureka 10.0.0.3 healthy 0 faults")
	f.remove("b", "b-1")
	run.until("a.service.eureka 10.0.0.1 healthy 10.0.0.2 healthy 2 faults")
}

// An answer of a Eureka without instances is not applied at once: the server may have just started.
func TestNobodyIsBelievedLater(t *testing.T) {
	f := newFake(t)
	s := f.source()
	s.settle = time.Hour
	run := follower(t, s)
	said := false
	for deadline := time.After(patience); f.Times("/eureka/apps/delta") < 3; {
		select {
		case u := <-run.updates:
			if said || u.Synced || len(u.Groups) != 1 || !u.Groups[emptyKey].Malformed() {
				t.Fatalf("it tells %+v", u)
			}
			said = true // that it waits, once
		case <-deadline:
			t.Fatal("it does not ask")
		case <-time.After(time.Millisecond):
		}
	}
	f.put(instanceOf("a", "a-1", "10.0.0.1", 80))
	run.until("a.service.eureka 10.0.0.1 healthy 0 faults")
}

// If deltas do not lead to the server's hash code, everything is read again; else everything is read only once.
func TestHashCode(t *testing.T) {
	f := newFake(t)
	f.put(instanceOf("a", "a-1", "10.0.0.1", 80))
	run := follower(t, f.source())
	run.until("a.service.eureka 10.0.0.1 healthy 0 faults")
	sick := instanceOf("a", "a-1", "10.0.0.1", 80)
	sick["status"] = "DOWN"
	f.put(sick)
	run.until("a.service.eureka 10.0.0.1 unhealthy 0 faults")
	if n := f.Times("/eureka/apps"); n != 1 {
		t.Errorf("everything was read %d times, though deltas say it", n)
	}
	f.mu.Lock()
	f.known[key{"B", "b-1"}] = instanceOf("b", "b-1", "10.0.0.2", 80) // no delta has it
	f.mu.Unlock()
	run.until("a.service.eureka 10.0.0.1 unhealthy 0 faults", "b.service.eureka 10.0.0.2 healthy 0 faults")
	if n := f.Times("/eureka/apps"); n != 2 {
		t.Errorf("everything was read %d times, want twice", n)
	}
	f.mu.Lock()
	f.noDelta = true
	f.mu.Unlock()
	f.put(instanceOf("a", "a-1", "10.0.0.1", 80))
	run.until("a.service.eureka 10.0.0.1 healthy 0 faults", "b.service.eureka 10.0.0.2 healthy 0 faults")
}

// What an earlier process had, and the first answer lacks, was not said to be gone; later changes are.
func TestTheFirstAnswerMayLack(t *testing.T) {
	f := newFake(t)
	f.put(instanceOf("a", "a-1", "10.0.0.1", 80))
	s := f.source()
	for run, want := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		updates, done := make(chan model.Update), make(chan error, 1)
		go func() { done <- s.Run(ctx, updates) }()
		next := func() model.Group {
			t.Helper()
			select {
			case u := <-updates:
				return u.Groups["a.service.eureka"]
			case <-time.After(patience):
				t.Fatal("it sends nothing")
			}
			return model.Group{}
		}
		if group := next(); len(group.Services) != 1 || group.Lapsed != want {
			t.Errorf("run %d begins with %+v, lapsed is not %t", run, group, want)
		}
		f.put(instanceOf("a", "a-1", "10.0.0.1", 90+run))
		if group := next(); len(group.Services) != 1 || group.Lapsed {
			t.Errorf("run %d sends a change as %+v", run, group)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// If one server fails the next is used, and no instance is lost if that one lags behind.
func TestFailover(t *testing.T) {
	one, two := newFake(t), newFake(t)
	for _, f := range []*fake{one, two} {
		f.put(instanceOf("a", "a-1", "10.0.0.1", 80))
		f.put(instanceOf("b", "b-1", "10.0.0.2", 80))
	}
	two.forget("b", "b-1")
	run := follower(t, one.source(two))
	run.until("a.service.eureka 10.0.0.1 healthy 0 faults", "b.service.eureka 10.0.0.2 healthy 0 faults")
	if two.Times("/eureka/apps") != 0 {
		t.Error("the second server was asked, though the first answers")
	}
	one.BreakWith(refuse)
	run.until("a.service.eureka 10.0.0.1 healthy 0 faults", "b.service.eureka 10.0.0.2 healthy 1 faults")
	asked := one.Times("/eureka/apps/delta")
	two.put(instanceOf("c", "c-1", "10.0.0.3", 80))
	run.until("a.service.eureka 10.0.0.1 healthy 0 faults", "b.service.eureka 10.0.0.2 healthy 1 faults", "c.service.eureka 10.0.0.3 healthy 0 faults")
	if n := one.Times("/eureka/apps/delta"); n != asked {
		t.Errorf("the first server was asked %d times more, though the second answers", n-asked)
	}
	two.BreakWith(refuse)
	run.fails("Eureka at " + two.URL)
}

// A bad answer ends the run with an error that names the request and the server, without the password.
func TestBadAnswers(t *testing.T) {
	body := func(text string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool { fmt.Fprint(w, text); return true }
	}
	for _, tt := range []struct {
		name   string
		broken func(w http.ResponseWriter, r *http.Request) bool
		want   string
	}{
		{"garbage", body("<applications/>"), "invalid character '<'"},
		{"half an answer", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"applications": {`)
			return true
		}, "unexpected EOF"},
		{"nothing", body(""), "EOF"},
		{"another server", body("{}"), "the answer has no applications: want a URL such as http://host:8761/eureka"},
		{"another list", body(`{"applications": {"application": 7}}`), "cannot unmarshal"},
		{"denied", func(w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, "login?", http.StatusUnauthorized)
			return true
		}, "401 Unauthorized: login?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			f.put(instanceOf("a", "a-1", "10.0.0.1", 80))
			f.BreakWith(tt.broken)
			s := f.source()
			s.URLs[0] = strings.Replace(s.URLs[0], "http://", "http://user:secret@", 1)
			run := follower(t, s)
			run.fails(tt.want)
			if err := ask2(t, s); strings.Contains(err.Error(), "secret") {
				t.Errorf("it shows the password: %v", err)
			}
		})
	}
}

func ask2(t *testing.T, s *Source) error {
	_, err := ask(t.Context(), &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, s.URLs[0], "/apps")
	return err
}

// A server that accepts connections and sends nothing does not delay the end of a run.
func TestSilence(t *testing.T) {
	f := newFake(t)
	asked := make(chan struct{})
	f.BreakWith(func(_ http.ResponseWriter, r *http.Request) bool {
		close(asked)
		<-r.Context().Done()
		return true
	})
	run := follower(t, f.source())
	<-asked
	run.stop()
	if err := <-run.done; err != nil {
		t.Error(err)
	}
}

// An answer of 10 MB is read, in the forms of several servers.
func TestLongAnswer(t *testing.T) {
	f := newFake(t)
	var out strings.Builder
	const instances = 20_000
	for i := range instances {
		fmt.Fprintf(&out, `%s{"instanceId": "i-%d", "hostName": "h", "ipAddr": "10.0.0.1", "status": "UP", "vipAddress": "a", "metadata": {"x": %q},`+
			`"port": {"$": "80", "@enabled": true}}`, strings.Repeat(",", min(i, 1)), i, strings.Repeat("y", 400))
	}
	f.BreakWith(func(w http.ResponseWriter, _ *http.Request) bool {
		fmt.Fprintf(w, `{"applications": {"apps__hashcode": "UP_%d_", "application": {"name": "A", "instance": [%s]}}}`, instances, &out)
		return true
	})
	s := f.source()
	s.silence = time.Minute // the test is about the size
	run := follower(t, s)
	u := run.next()
	if g := u.Groups["a.service.eureka"]; g.Len() != 1 || len(g.Services[0].Endpoints) != instances {
		t.Errorf("of %d instances it tells %d groups", instances, len(u.Groups))
	}
}

// Requests to a server that redirects in a circle, or whose endless answer arrives a byte at a time, are aborted.
func TestServersThatWasteTime(t *testing.T) {
	for name, tt := range map[string]struct {
		silence time.Duration
		broken  func(w http.ResponseWriter, r *http.Request) bool
		want    string
	}{
		"in a circle": {patience, func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
			return true
		}, "stopped after 10 redirects"},
		"bytes that drip": {300 * time.Millisecond, func(w http.ResponseWriter, r *http.Request) bool {
			fmt.Fprint(w, `{"applications": {`)
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
		}, "Client.Timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.BreakWith(tt.broken)
			s := f.source()
			s.silence = tt.silence
			follower(t, s).fails(tt.want)
		})
	}
}
