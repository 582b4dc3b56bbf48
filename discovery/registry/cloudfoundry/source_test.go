package cloudfoundry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/sourcetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const long = 20 * time.Second

// plain returns a registration of one plain instance.
func plain(name, address string) string {
	return fmt.Sprintf(`{"uris":["%s.cf.test"],"host":%q,"port":8080,"private_instance_id":%q}`, name, address, name)
}

func newSource(b *fakeBroker, interval, threshold time.Duration) *Source {
	return New(Broker{URLs: []string{b.url()}}, "tested", netip.MustParseAddr("10.9.9.9"), everyHost, interval, threshold)
}

func TestContract(t *testing.T) {
	b := startBroker(t)
	sourcetest.Run(t, func(*testing.T) sourcetest.Registry {
		b.reset()
		return sourcetest.Registry{
			Source: newSource(b, 100*time.Millisecond, time.Hour),
			Host:   func(name string) string { return name + ".cf.test" },
			Put:    func(name, address string) { b.put(name, plain(name, address), true) },
			Delete: b.remove,
			Spoil:  func(name string) { b.put(name, plain(name, "none"), false) },
			Break:  b.stop,
			Mend:   b.start,
			Touch:  func() { b.put("a", plain("a", "10.0.0.1"), true) },
		}
	})
}

// run follows a source, and keeps its groups.
type run struct {
	t       *testing.T
	cancel  context.CancelFunc
	updates chan model.Update
	done    chan error
	groups  map[string]model.Group
	synced  bool
}

func start(t *testing.T, s *Source) *run {
	ctx, cancel := context.WithCancel(t.Context())
	r := &run{t: t, cancel: cancel, updates: make(chan model.Update), done: make(chan error, 1), groups: map[string]model.Group{}}
	go func() { r.done <- s.Run(ctx, r.updates) }()
	t.Cleanup(func() { cancel() })
	return r
}

// until receives updates until a condition is true.
func (r *run) until(what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.After(long); !ok(); {
		select {
		case u := <-r.updates:
			for key, g := range u.Groups {
				if r.groups[key] = g; g.Empty() {
					delete(r.groups, key)
				}
			}
			r.synced = r.synced || u.Synced
		case err := <-r.done:
			r.t.Fatalf("it ended with %v before %s", err, what)
		case <-deadline:
			r.t.Fatalf("not within %s: %s; it has %d groups", long, what, len(r.groups))
		}
	}
}

func (r *run) stop() {
	r.t.Helper()
	r.cancel()
	if err := r.end(); err != nil {
		r.t.Errorf("stopped, it returns %v, want nil", err)
	}
}

func (r *run) end() error {
	r.t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(long):
		r.t.Fatal("it does not end")
		return nil
	}
}

func TestPruningAndWhatIsNeverPruned(t *testing.T) {
	b := startBroker(t)
	s := newSource(b, 50*time.Millisecond, 400*time.Millisecond)
	r := start(t, s)
	defer r.stop()
	r.until("the subscription", func() bool { return r.synced })
	b.send("router.register", "", `{"uris":["secure.cf.test"],"host":"10.0.0.2","port":8080,"tls_port":61001,"server_cert_domain_san":"one"}`)
	b.send("router.register", "", plain("plain", "10.0.0.1"))
	r.until("both", func() bool { return len(r.groups) == 2 })
	r.until("that the plain one goes", func() bool { return len(r.groups) == 1 })
	service := r.groups["secure.cf.test"].Services[0]
	if got := service.Endpoints[0].Ports["http"]; got != 61001 || service.SubjectAltNames[0] != "one" {
		t.Errorf("a TLS route has port %d and names %q", got, service.SubjectAltNames)
	}
	if got := testutil.ToFloat64(s.counts.pruned); got != 1 {
		t.Errorf("%v instances are counted as pruned, want 1", got)
	}
	b.send("router.unregister", "", `{"uris":["secure.cf.test"],"host":"10.0.0.2","port":8080,"tls_port":61001}`)
	r.until("that the TLS route goes", func() bool { return len(r.groups) == 0 })
}

func TestNothingAgesWhileTheBrokerIsAway(t *testing.T) {
	b := startBroker(t)
	s := newSource(b, 50*time.Millisecond, time.Hour)
	r := start(t, s)
	r.until("the subscription", func() bool { return r.synced })
	b.send("router.register", "", plain("a", "10.0.0.1")) // it is not announced again
	r.until("the route", func() bool { return len(r.groups) == 1 })
	b.stop()
	if err := r.end(); err == nil {
		t.Fatal("the loss of the broker is no error")
	}
	// It would be removed if it had aged during all that time.
	for _, i := range s.table.routes["a.cf.test"] {
		i.updated = i.updated.Add(-2 * time.Hour)
		s.table.routes["a.cf.test"][i.place()] = i
	}
	b.start()
	again := start(t, s)
	defer again.stop()
	again.until("the route, at once", func() bool { return again.synced })
	if len(again.groups) != 1 {
		t.Errorf("after the broker is back there is %v", again.groups)
	}
	if s.table.due(time.Now()) {
		t.Error("the route is to be pruned at once")
	}
}

func TestABrokerThatStopsAnsweringPrunesNothing(t *testing.T) {
	b := startBroker(t)
	s := newSource(b, 50*time.Millisecond, 400*time.Millisecond)
	r := start(t, s)
	r.until("the subscription", func() bool { return r.synced })
	b.send("router.register", "", plain("a", "10.0.0.1"))
	r.until("the route", func() bool { return len(r.groups) == 1 })
	b.mu.Lock()
	b.mute = true
	b.mu.Unlock()
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "nothing is pruned") {
		t.Errorf("it ends with %v", err)
	}
	if len(s.table.routes) != 1 {
		t.Error("the route was pruned")
	}
}

func TestGreetings(t *testing.T) {
	b := startBroker(t)
	s := newSource(b, 30*time.Second, time.Hour)
	r := start(t, s)
	defer r.stop()
	await(t, "router.start", func() bool { return len(b.said("router.start")) == 1 && b.clients() == 1 })
	const want = `{"id":"tested","hosts":["10.9.9.9"],"minimumRegisterIntervalInSeconds":30,"pruneThresholdInSeconds":3600}`
	if got := b.said("router.start")[0]; got != want {
		t.Errorf("router.start has %s, want %s", got, want)
	}
	for _, reply := range []string{"", "router.unregister", "router.register", "$SYS.REQ.SERVER.PING"} {
		b.send("router.greet", reply, "")
	}
	b.send("router.greet", "_INBOX.one", "")
	await(t, "an answer", func() bool { return len(b.said("_INBOX.one")) == 1 })
	if got := b.said("_INBOX.one")[0]; got != want {
		t.Errorf("the answer has %s, want %s", got, want)
	}
	for _, subject := range []string{"router.unregister", "router.register", "$SYS.REQ.SERVER.PING"} {
		if got := b.said(subject); len(got) > 0 {
			t.Errorf("a greeting made it publish %q to %s", got, subject)
		}
	}
	if got := testutil.ToFloat64(s.counts.messages.WithLabelValues("router.greet", "malformed")); got != 4 {
		t.Errorf("%v greetings are counted as malformed, want 4", got)
	}
}

// A connection to a broker that accepts and sends nothing is closed; and a stop does not wait for it.
func TestASilentBroker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	silent := Broker{URLs: []string{"nats://" + l.Addr().String()}, patience: 200 * time.Millisecond}
	r := start(t, New(silent, "tested", netip.Addr{}, everyHost, time.Second, time.Hour))
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "connect to NATS") {
		t.Errorf("it ends with %v", err)
	}
	silent.patience = time.Hour
	r = start(t, New(silent, "tested", netip.Addr{}, everyHost, time.Second, time.Hour))
	r.stop()
}

// The next broker of the list is used if the first cannot be reached, and a flood of messages, also malformed ones, is
// handled.
func TestAFlood(t *testing.T) {
	b := startBroker(t)
	s := New(Broker{URLs: []string{"nats://127.0.0.1:1", b.url()}}, "tested", netip.Addr{}, everyHost, 50*time.Millisecond, time.Hour)
	s.table.limit = 5_000
	r := start(t, s)
	defer r.stop()
	r.until("the subscription", func() bool { return r.synced })
	go func() {
		for i := range 20_000 {
			b.send("router.register", "", plain(fmt.Sprint("s", i), "10.0.0.1"))
			if i%10 == 0 {
				b.send("router.register", "", "\x00 nonsense")
			}
		}
		b.send("router.unregister", "", plain("s7", "10.0.0.1"))
	}()
	r.until("the last message", func() bool { return len(r.groups) == 4_999 && r.groups["s7.cf.test"].Empty() })
	faults := r.groups["messages for router.register"].Faults
	if len(faults) != 1 || !strings.Contains(faults[0], "nonsense") {
		t.Errorf("the faults are %q", faults)
	}
	malformed := testutil.ToFloat64(s.counts.messages.WithLabelValues("router.register", "malformed"))
	if want := 20_000.0 - 4_999 + 2_000; malformed != want {
		t.Errorf("%v messages are counted as malformed, want %v", malformed, want)
	}
}

func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct{ text, fault string }{
		"one line":    {"user:pass:word\n", ""},
		"no password": {"user", "want one line USER:PASSWORD"},
		"two lines":   {"user:one\nother:two", "want one line USER:PASSWORD"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := credentials(path)
			if (err == nil) != (test.fault == "") || err != nil && !strings.Contains(err.Error(), test.fault) {
				t.Errorf("got %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "one") && strings.Contains(err.Error(), "other:") {
				t.Errorf("the error shows a password: %v", err)
			}
		})
	}
	s := New(Broker{URLs: []string{"nats://127.0.0.1:1"}, Credentials: filepath.Join(dir, "none")}, "tested", netip.Addr{}, everyHost, time.Second, time.Hour)
	if err := start(t, s).end(); err == nil || !strings.Contains(err.Error(), "read credentials of NATS") {
		t.Errorf("without its file it ends with %v", err)
	}
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(long)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within %s: %s", long, what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// A broker that cannot be reached is named with the reason, which nats.go itself does not return.
func TestABrokerThatIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	err = New(Broker{URLs: []string{"nats://" + address}}, "tested", netip.Addr{}, everyHost, time.Second, time.Hour).Run(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "connect to NATS at nats://"+address) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("it ends with %v", err)
	}
}

// A connection to a broker that sends an endless line, or malformed data, is closed, and its data is not buffered.
func TestBrokersThatAreNone(t *testing.T) {
	for name, test := range map[string]struct {
		say      func(io.Writer) error
		want     string
		patience time.Duration // shorter where it is what ends the connection
	}{
		"a line without an end": {func(w io.Writer) error {
			_, err := w.Write([]byte("INFO {"))
			for chunk := bytes.Repeat([]byte("a"), 1<<20); err == nil; {
				_, err = w.Write(chunk)
			}
			return err
		}, "a line of more than 8 MiB", time.Minute},
		"another protocol": {func(w io.Writer) error { _, err := io.WriteString(w, "HTTP/1.1 400 Bad Request\r\n\r\n"); return err }, "connect to NATS", time.Minute},
		"half a line":      {func(w io.Writer) error { _, err := io.WriteString(w, `INFO {"server_id`); return err }, "connect to NATS", 5 * time.Second},
		"junk after the connection": {func(w io.Writer) error {
			_, err := io.WriteString(w, "INFO {\"server_id\":\"T\",\"version\":\"2.10.0\",\"proto\":1,\"max_payload\":1048576}\r\nPONG\r\nMSG junk\r\n")
			return err
		}, "nats", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var serving sync.WaitGroup
			serving.Go(func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				if test.say(conn) == nil {
					_, _ = io.Copy(io.Discard, conn) // until the client leaves
				}
			})
			defer serving.Wait()
			defer l.Close()
			b := Broker{URLs: []string{"nats://" + l.Addr().String()}, patience: test.patience}
			err = New(b, "tested", netip.Addr{}, everyHost, time.Hour, 2*time.Hour).Run(t.Context(), nil)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("it ends with %v, want %q", err, test.want)
			}
		})
	}
}
