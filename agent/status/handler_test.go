package status

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/health"
	"github.com/pilotlight/pilotlight/internal/golden"
)

var (
	began  = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	liveAt = began.Add(time.Second)
	ends   = time.Unix(1_800_000_000, 0).UTC()
)

// serving is the document of an agent whose Envoy serves.
func serving() Document {
	observation := health.Observation{
		Pid: 4711, Epoch: 3, Process: health.Running, AdminExpected: true, Answer: &health.Answer{Epoch: 3, Ready: true},
		Config: &health.Config{WorkersStarted: true, Listeners: 2},
	}
	return Document{
		Node: "sidecar~10.0.0.1~x~",
		Supervisor: agent.Status{
			Epochs: []agent.EpochStatus{{Epoch: 3, Restart: 3, State: "serving", StartedAt: began, LiveAt: &liveAt}},
			Budget: 10, Failures: 2, Took: 300 * time.Millisecond, Counts: map[agent.Note]int{agent.HandedOver: 3},
			Events: []agent.Event{{At: liveAt, Note: agent.Serving, Epoch: 3}},
		},
		Pids: map[int]int{3: 4711},
		Certificates: []Certificate{
			{Path: "/etc/certs/cert-chain.pem", Serial: "03e9", NotAfter: &ends},
			{Path: "/etc/istio/ingress-certs/tls.crt", Fault: `is "missing"`, Held: &Held{"07d1", ends.Add(time.Hour)}},
		},
		Recording: &Recording{Fault: "no space left on device", Ended: 2}, Memory: 12 << 20,
		Health: health.State{}.Next(observation, liveAt).Verdict(liveAt),
		Past: Past{
			Readiness: []Transition{{began, false, "ProcessUp: no Envoy runs"}, {liveAt, true, ""}}, Changes: 1,
			LastExit: &Exit{At: began, Epoch: 2, What: string(agent.Failed), Exit: "exit status 1: cannot bind", Lines: []string{"a", "cannot bind"}},
		},
	}
}

// but is serving with a change.
func but(change func(*Document)) Document {
	d := serving()
	change(&d)
	return d
}

// configOf returns a Config that always reports this document, and has a loop that answers.
func configOf(t *testing.T, d Document) Config {
	askCh := make(chan agent.Ask)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case ask := <-askCh:
				close(ask.Taken)
			case <-done:
				return
			}
		}
	}()
	t.Cleanup(func() { close(done) })
	return Config{
		Document: func() Document { return d }, AskCh: askCh, Quit: func() {}, Envoy: func() http.RoundTripper { return nil },
		Envoys: ports{}, Log: slog.New(slog.DiscardHandler),
	}
}

// ports has an Envoy that sends from port 1, and a program that closes its connection early at port 2.
type ports struct{}

func (ports) Sends(peer, own netip.AddrPort) (bool, error) {
	if peer.Port() == 2 {
		return false, errors.New("gone")
	}
	return peer.Port() == 1, nil
}

func (ports) RefuseOwn(int) error { return nil }

// received returns a request as a server of the agent has it.
func received(method, path string) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	own := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:15020"))
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, own))
}

func get(c Config, path string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	Handler(c).ServeHTTP(recorder, httptest.NewRequest("GET", path, nil))
	return recorder
}

func TestReady(t *testing.T) {
	for _, test := range []struct {
		name     string
		document Document
		status   int
		body     string
	}{
		{"serving", serving(), 200, "ready\n"},
		{"stopping, though Envoy serves", but(func(d *Document) { d.Supervisor.Stopping = true }), 503, "stopping\n"},
		{"drained, though Envoy serves", but(func(d *Document) { d.Supervisor.Drained = true }), 503, "drained\n"},
		{"degraded", but(func(d *Document) { d.Health.Degraded = "CDS: x" }), 200, "ready, degraded: CDS: x\n"},
		{"what is missing is named", but(func(d *Document) {
			d.Health = health.Verdict{Conditions: []health.Condition{
				{Type: health.ProcessUp, Status: true}, {Type: health.CDSReceived, Reason: "not yet"}, {Type: health.LDSReceived, Reason: "not yet"},
			}}
		}), 503, "CDSReceived: not yet; LDSReceived: not yet\n"},
		{"nothing has started", Document{}, 503, "ProcessUp: not observed yet; AdminAnswers: not observed yet; CDSReceived: not observed yet; " +
			"LDSReceived: not observed yet; WorkersStarted: not observed yet; ListenersBound: not observed yet; CertificatesValid: not observed yet\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := configOf(t, test.document)
			if got := get(c, "/healthz/ready"); got.Code != test.status || got.Body.String() != test.body {
				t.Errorf("got %d %q, want %d %q", got.Code, got.Body, test.status, test.body)
			}
			verbose := get(c, "/healthz/ready?verbose")
			var view readyView
			if err := json.Unmarshal(verbose.Body.Bytes(), &view); err != nil {
				t.Fatal(err)
			}
			if verbose.Code != test.status || view.Ready != (test.status == 200) || view.Conditions == nil {
				t.Errorf("verbose: got %d %s", verbose.Code, verbose.Body)
			}
		})
	}
}

// The two documents that other programs read: their shape is a promise.
func TestReadyVerbose(t *testing.T) {
	golden.JSON(t, get(configOf(t, but(func(d *Document) { d.Health.Degraded = "CDS: Envoy rejected 1 answers" })), "/healthz/ready?verbose").Body.Bytes())
}

func TestStatus(t *testing.T) {
	document, err := json.Marshal(serving().view(began.Add(time.Minute)))
	if err != nil {
		t.Fatal(err)
	}
	golden.JSON(t, document)
}

func TestStatusOfNothing(t *testing.T) {
	body := get(configOf(t, Document{}), "/status").Body.String()
	for _, want := range []string{`"epochs": []`, `"certificates": []`, `"history": []`, `"ready": false`, `"type": "ProcessUp"`} {
		if !strings.Contains(body, want) {
			t.Errorf("lacks %s:\n%s", want, body)
		}
	}
}

// The agent is alive while its loop answers, in any state of Envoy.
func TestLive(t *testing.T) {
	if got := get(configOf(t, Document{}), "/healthz/live"); got.Code != 200 {
		t.Errorf("its loop answers: got %d %s", got.Code, got.Body)
	}
	gaveUp := but(func(d *Document) { d.Supervisor.GaveUp = "Envoy could not be kept alive" })
	if got := get(configOf(t, gaveUp), "/healthz/live"); got.Code != 503 || !strings.Contains(got.Body.String(), "kept alive") {
		t.Errorf("it has given up: got %d %s", got.Code, got.Body)
	}
	synctest.Test(t, func(t *testing.T) {
		stuck := Config{Document: serving, AskCh: make(chan agent.Ask)}
		began := time.Now()
		if got := get(stuck, "/healthz/live"); got.Code != 503 || time.Since(began) != loopBound {
			t.Errorf("its loop is stuck: got %d %s after %s", got.Code, got.Body, time.Since(began))
		}
		slow := make(chan agent.Ask, 1) // taken, and never done
		if got := get(Config{Document: serving, AskCh: slow}, "/healthz/live"); got.Code != 503 {
			t.Errorf("its loop is stuck in a step: got %d %s", got.Code, got.Body)
		}
	})
}

func TestMetrics(t *testing.T) {
	recorder := httptest.NewRecorder()
	serving().writeMetrics(recorder, began.Add(2*time.Second))
	text := recorder.Body.String()
	for _, want := range []string{
		"# TYPE pilotlight_agent_ready gauge\npilotlight_agent_ready 1\n",
		`pilotlight_agent_events_total{event="handed_over_to_a_newcomer"} 3` + "\n",
		`pilotlight_agent_events_total{event="envoy_ended_unasked"} 0` + "\n",
		`pilotlight_agent_events_total{event="drained"} 0` + "\n",
		"pilotlight_agent_restart_budget 10\n",
		"pilotlight_agent_live_seconds 1\n",
		"pilotlight_agent_last_handover_seconds 0.3\n",
		`pilotlight_agent_condition{type="ListenersBound"} 1` + "\n",
		`pilotlight_agent_certificate_expiry_timestamp_seconds{path="/etc/certs/cert-chain.pem"} 1800000000` + "\n",
		`pilotlight_agent_certificate_expiry_timestamp_seconds{path="/etc/istio/ingress-certs/tls.crt"} 1800003600` + "\n",
		`pilotlight_agent_certificate_valid{path="/etc/istio/ingress-certs/tls.crt"} 0` + "\n",
		"pilotlight_agent_last_good_recording 0\n",
		"pilotlight_agent_last_good_recording_ended_total 2\n",
		"pilotlight_agent_resident_memory_bytes 12582912\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	if _, err := parser.TextToMetricFamilies(strings.NewReader(text)); err != nil {
		t.Errorf("Prometheus's parser: %v", err)
	}
}

// The agent's own metrics are merged with those of Envoy and the application.
func TestMergedMetricsHaveTheAgentsOwn(t *testing.T) {
	if got := get(configOf(t, serving()), "/stats/prometheus"); !strings.Contains(got.Body.String(), "pilotlight_agent_resident_memory_bytes 12582912\n") {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
}

func TestOnlyLocalProgramsControl(t *testing.T) {
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for _, test := range []struct {
		name   string
		change func(*http.Request)
		status int
		body   string
	}{
		{"a program on this host", func(*http.Request) {}, 200, ""},
		{"by IPv6", func(r *http.Request) { r.RemoteAddr, r.Host = "[::1]:40000", "[::1]:15020" }, 200, ""},
		{"by IPv4 at a listener of both", func(r *http.Request) { r.RemoteAddr = "[::ffff:127.0.0.1]:40000" }, 200, ""},
		{"by name, without a port", func(r *http.Request) { r.Host = "localhost" }, 200, ""},
		{"a GET", func(r *http.Request) { r.Method = "GET" }, 405, "want POST"},
		{"from elsewhere", func(r *http.Request) { r.RemoteAddr = "10.0.0.7:40000" }, 403, "asked from 10.0.0.7:40000"},
		{"DNS rebinding", func(r *http.Request) { r.Host = "evil.example:15020" }, 403, `asked as host "evil.example:15020"`},
		{"traffic that Envoy passes in", func(r *http.Request) { r.RemoteAddr = "127.0.0.6:40000" }, 403, "asked from 127.0.0.6:40000"},
		{"a browser, of its own page", header("Origin", "http://127.0.0.1:15020"), 403, "browser"},
		{"a browser, of another's", header("Sec-Fetch-Site", "cross-site"), 403, "page of another site"},
		{"through a proxy", header("X-Forwarded-For", "10.0.0.7"), 403, "passed on by a proxy"},
		{"by Envoy, without a header", func(r *http.Request) { r.RemoteAddr = "127.0.0.1:1" }, 403, "sent by Envoy"},
		{"by Envoy over IPv6", func(r *http.Request) { r.RemoteAddr = "[::1]:1" }, 403, "sent by Envoy"},
		{"by a program that has gone", func(r *http.Request) { r.RemoteAddr = "127.0.0.1:2" }, 403, "it may have been sent by Envoy: gone"},
	} {
		for _, path := range []string{"/drain", "/undrain", "/quitquitquit"} {
			t.Run(test.name+path, func(t *testing.T) {
				c := configOf(t, serving())
				quits := 0
				c.Quit = func() { quits++ }
				request := received("POST", path)
				request.RemoteAddr, request.Host = "127.0.0.1:40000", "127.0.0.1:15020"
				test.change(request)
				recorder := httptest.NewRecorder()
				Handler(c).ServeHTTP(recorder, request)
				if recorder.Code != test.status || !strings.Contains(recorder.Body.String(), test.body) {
					t.Errorf("got %d %q, want %d %q", recorder.Code, recorder.Body, test.status, test.body)
				}
				if want := test.status == 200 && path == "/quitquitquit"; (quits == 1) != want {
					t.Errorf("quit %d times, want %v", quits, want)
				}
			})
		}
	}
}

func TestCommands(t *testing.T) {
	for path, want := range map[string]agent.Command{"/drain": agent.Drain, "/undrain": agent.Resume} {
		askCh := make(chan agent.Ask)
		asked := make(chan agent.Command, 1)
		go func() {
			ask := <-askCh
			asked <- ask.Command
			close(ask.Taken)
		}()
		c := configOf(t, serving())
		c.AskCh = askCh
		request := received("POST", path)
		request.RemoteAddr, request.Host = "127.0.0.1:40000", "127.0.0.1:15020"
		recorder := httptest.NewRecorder()
		Handler(c).ServeHTTP(recorder, request)
		if got := <-asked; got != want || recorder.Code != 200 {
			t.Errorf("%s: command %q, status %d; want %q, 200", path, got, recorder.Code, want)
		}
	}
	stopping := configOf(t, but(func(d *Document) { d.Supervisor.Stopping = true }))
	request := received("POST", "/drain")
	request.RemoteAddr, request.Host = "127.0.0.1:40000", "127.0.0.1:15020"
	recorder := httptest.NewRecorder()
	Handler(stopping).ServeHTTP(recorder, request)
	if recorder.Code != http.StatusConflict {
		t.Errorf("drain of one that stops: %d, want 409", recorder.Code)
	}
}
