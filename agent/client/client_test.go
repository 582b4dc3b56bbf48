package client

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asking returns a Client of a server on loopback, with localhost and its port as the base URL.
func asking(t *testing.T, server *httptest.Server) *Client {
	t.Helper()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return &Client{Base: &url.URL{Scheme: "http", Host: "localhost:" + port}, Setting: "--statusPort", Timeout: 10 * time.Second}
}

func answering(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

const notYet = `{"ready": false, "conditions": [
	{"type": "ProcessUp", "status": true, "reason": "pid 7", "since": "2026-11-21T20:00:00Z"},
	{"type": "CDSReceived", "status": false, "reason": "not yet", "since": "2026-11-21T20:00:01Z"},
	{"type": "LDSReceived", "status": false, "reason": "not yet", "since": "2026-11-21T20:00:02Z"}]}`

func TestReady(t *testing.T) {
	for _, test := range []struct {
		name string
		code int
		body string
		want string // of the error; empty for ready
		any  string // likewise, where any server will do
	}{
		{"ready", 200, `{"ready": true, "conditions": []}`, "", ""},
		{
			"not ready: what blocks, since when", 503, notYet,
			"not ready\n  CDSReceived since 2026-11-21T20:00:01Z: not yet\n  LDSReceived since 2026-11-21T20:00:02Z: not yet", "not ready",
		},
		{"stopping", 503, `{"ready": false, "stopping": true}`, "not ready\n  stopping", "stopping"},
		{"drained", 503, `{"ready": false, "drained": true}`, "not ready\n  drained", "drained"},
		{"no reason", 503, `{"ready": false}`, "it gives no reason", "no reason"},
		{"another server that is well", 200, "hello", `is no agent (is --statusPort right?): GET /healthz/ready?verbose: 200 OK: "hello"`, ""},
		{"another server that is not", 404, "not found", "is no agent", `GET /healthz/ready?verbose: 404 Not Found: "not found"`},
		{"another server that speaks JSON", 200, `{"status": "ok"}`, "is no agent", ""},
		{"words that contradict the status", 200, `{"ready": false}`, "is no agent", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := asking(t, httptest.NewServer(answering(test.code, test.body)))
			says(t, c.Ready(t.Context()), test.want)
			c.Base.Path, c.Base.RawQuery = "/healthz/ready", "verbose"
			says(t, c.Answers(t.Context()), test.any)
		})
	}
}

func says(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestNobodyListens(t *testing.T) {
	server := httptest.NewServer(answering(200, ""))
	c := asking(t, server)
	server.Close()
	err := c.Ready(t.Context())
	if !errors.Is(err, ErrNobody) {
		t.Errorf("%v, want ErrNobody", err)
	}
	says(t, err, "is the agent running, is --statusPort right?")
}

func TestAServerThatIsSilent(t *testing.T) {
	hang := make(chan struct{})
	c := asking(t, httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang })))
	defer close(hang)
	c.Timeout = 10 * time.Millisecond
	says(t, c.Ready(t.Context()), "no answer to GET /healthz/ready?verbose within 10ms")
}

// An endless answer is read up to a limit.
func TestAnAnswerIsBounded(t *testing.T) {
	c := asking(t, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	})))
	says(t, c.Ready(t.Context()), "is no agent")
}

// An agent may listen on ::1 alone.
func TestLocalhostIsBothLoopbacks(t *testing.T) {
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: answering(200, `{"ready": true}`)}}
	server.Start()
	says(t, asking(t, server).Ready(t.Context()), "")
}

func TestARedirectIsAnAnswer(t *testing.T) {
	c := asking(t, httptest.NewServer(http.RedirectHandler("/elsewhere", http.StatusFound)))
	response, err := c.Do(t.Context(), http.MethodGet, "/here", nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusFound {
		t.Errorf("status %d, want 302 itself", response.StatusCode)
	}
}

func TestQuit(t *testing.T) {
	var asked string
	c := asking(t, httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.Path
	})))
	says(t, c.Quit(t.Context()), "")
	if asked != "POST /quitquitquit" {
		t.Errorf("asked %s", asked)
	}
	c = asking(t, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "stopping")
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler) // it ends before its answer does
	})))
	says(t, c.Quit(t.Context()), "")
	c = asking(t, httptest.NewServer(answering(403, "from loopback only")))
	says(t, c.Quit(t.Context()), `POST /quitquitquit: 403 Forbidden: "from loopback only"`)
}

func FuzzReadiness(f *testing.F) {
	f.Add(503, []byte(notYet))
	f.Add(200, []byte(`{"ready": true}`))
	f.Add(200, []byte(`{"ready": null}`))
	f.Fuzz(func(t *testing.T, code int, body []byte) {
		a := answer{code: code, body: body}
		r, err := a.readiness()
		if err != nil {
			return
		}
		if blocked := r.blocks() != nil; blocked != (code != 200) {
			t.Errorf("%d %q: blocked is %v", code, body, blocked)
		}
	})
}

// If the agent's socket does not serve a client, the error lists the users that it serves.
func TestASocketOfAnotherUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	c := &Client{
		Base: &url.URL{Scheme: "http", Host: "localhost:1"}, Setting: "--statusPort", Timeout: 10 * time.Second,
		Socket: func() string { return path }, Host: "agent", Owner: true,
	}
	if _, err := c.Upgrade(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "its socket serves only its own user, and root of its own user namespace") {
		t.Errorf("got %v", err)
	}
}

// The sockets of an agent that is replaced stay open: one that refuses has ended, and nothing is waited for.
func TestAnAgentThatEndsInAnUpgrade(t *testing.T) {
	ends := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"upgrades":{"count":0,"pending":"v2"}}`)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		close(ends)
	}))
	c := asking(t, server)
	go func() {
		<-ends
		server.Close()
	}()
	_, err := c.Upgrade(t.Context(), "")
	says(t, err, "the agent has ended")
}
