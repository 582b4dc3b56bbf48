package agent

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// documented is an access log of docs/bootstrap.md, by the words before it.
func documented(t *testing.T, before string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "bootstrap.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), before)
	block, _, closed := strings.Cut(rest[strings.Index(rest, "\n    "):], "\n\n")
	if !found || !closed || !json.Valid([]byte("{"+block+"}")) {
		t.Fatalf("docs/bootstrap.md has no access log after %s: %s", before, block)
	}
	return strings.TrimSpace(block)
}

// recording is a failing agent whose listeners have the documented access log.
func startRecording(t *testing.T, flags ...string) *failing {
	t.Helper()
	log := documented(t, "**Failed requests.**")
	return startFailingWith(t, func(text string) string {
		return strings.ReplaceAll(text, `"http_filters": [`, log+`, "http_filters": [`)
	}, flags...)
}

// awaitWhy asks until the answer has all of these.
func (f *failing) awaitWhy(wants ...string) string {
	f.t.Helper()
	var text string
	f.must(lab.Eventually(handoverLimit, func() error {
		text = f.why("--last", "100")
		for _, want := range wants {
			if !strings.Contains(text, want) {
				return fmt.Errorf("lacks %q:\n%s", want, text)
			}
		}
		return nil
	}))
	return text
}

// Each failed request is told by itself, by an agent with a bootstrap of the user's own and no control plane; successes are not.
func TestWhyTellsEachRequest(t *testing.T) {
	t.Parallel()
	f := startRecording(t)
	for path, want := range map[string]int{"/dead?token=s3cret&n=1": 503, "/empty": 503, "/slow?30s": 504, "/tls": 503, "/broken": 500, "/nowhere": 404, "/held": 200} {
		if path == "/held" {
			close(f.program.held)
		}
		if got := f.get(path); got != want {
			t.Errorf("%s: status %d, want %d", path, got, want)
		}
	}
	host, _, _ := net.SplitHostPort(f.routes)
	text := f.awaitWhy(
		"503 UF", "GET "+f.routes+"/dead?token=…&n=… of ", "to cluster dead: the connection failed, at "+host+":1: ", "Connection refused",
		"GET "+f.routes+"/empty of ", "to cluster empty: no endpoint was healthy",
		"504 UT", "to cluster slow: the server has not answered in time, at 127.0.0.1:",
		"to cluster tls: the TLS handshake failed, at 127.0.0.1:", "WRONG_VERSION_NUMBER",
		"500 -", "to cluster broken: the server itself answered 500", "look at the server's log",
		"404 NR", "/nowhere of ", ": no route matches",
	)
	if strings.Contains(text, "s3cret") || strings.Contains(text, "/held of") {
		t.Errorf("tells a secret or a success:\n%s", text)
	}
	f.handOver(2) // the records are the agent's, not an Envoy's
	f.awaitWhy("to cluster empty: no endpoint was healthy", "404 NR")
	if got := f.get("/empty?again"); got != http.StatusServiceUnavailable {
		t.Errorf("after a handover: status %d", got)
	}
	f.awaitWhy("/empty?=… of ")
}

// What a client writes into its request stays in its line.
func TestAHostileRequestIsOneLine(t *testing.T) {
	t.Parallel()
	f := startRecording(t)
	for _, path := range []string{"/nowhere/" + strings.Repeat("x", 40<<10), "/nowhere/%0d%0a12:00:00.000%20%20200", "/nowhere/\x1b[31m", "/nowhere/\u202egnp", "/nowhere/end"} {
		conn, err := net.Dial("tcp", f.routes)
		f.must(err)
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", path)
		f.must(err)
		_, _ = conn.Read(make([]byte, 100)) // 404, or 400 for what is no path
		conn.Close()
	}
	text := f.awaitWhy("/nowhere/end of ", "/nowhere/%0d%0a")
	for line := range strings.Lines(text) {
		if len(line) > 1500 || strings.ContainsAny(line, "\x1b\u202e\r") || strings.HasPrefix(line, "12:00:00.000") {
			t.Errorf("a line of %d bytes: %.200q", len(line), line)
		}
	}
}

// An agent that stands still costs Envoy neither memory nor its end, and the records that are lost are counted.
func TestAnAgentThatDoesNotReadRecords(t *testing.T) {
	t.Parallel()
	f := startRecording(t)
	if got := f.get("/nowhere"); got != http.StatusNotFound {
		t.Errorf("status %d", got)
	}
	f.awaitWhy("404 NR")
	envoy := f.pid("serving")
	before := lab.RSS(envoy)
	f.Signal(syscall.SIGSTOP)
	kept := &http.Client{}
	defer kept.CloseIdleConnections()
	const requests = 12_000
	for range requests {
		response, err := kept.Get("http://" + f.routes + "/nowhere/" + strings.Repeat("x", 300))
		f.must(err)
		response.Body.Close()
	}
	if grown := lab.RSS(envoy) - before; grown > 4<<20 {
		t.Errorf("Envoy has grown by %d bytes for %d records that nobody read", grown, requests)
	}
	f.Signal(syscall.SIGCONT)
	f.awaitWhy("failed requests that are only counted: they came faster than the agent takes records, or while it stood still")
	f.stopsQuickly()
}

// An Envoy that is stopped leaves the answer about the requests before, as soon as another one serves.
func TestRecordsOutliveTheirEnvoy(t *testing.T) {
	t.Parallel()
	f := startRecording(t)
	if got := f.get("/nowhere/first"); got != http.StatusNotFound {
		t.Errorf("status %d", got)
	}
	f.awaitWhy("/nowhere/first of ")
	envoy := f.pid("serving")
	f.must(syscall.Kill(envoy, syscall.SIGSTOP))
	f.must(f.awaitStatus(handoverLimit, "another Envoy", func(a agentStatus) bool {
		return a.Ready && a.servedByAnother(envoy)
	}))
	f.awaitWhy("/nowhere/first of ")
}

// Another image of the agent says what it does not know, and records on.
func TestRecordsAfterAnUpgrade(t *testing.T) {
	t.Parallel()
	f := startRecording(t)
	if got := f.get("/nowhere/before"); got != http.StatusNotFound {
		t.Errorf("status %d", got)
	}
	f.awaitWhy("/nowhere/before of ")
	f.must(f.upgrade(images(t)[1]))
	f.upgraded(1)
	f.awaitWhy("an earlier image of the agent had their records")
	if got := f.get("/nowhere/after"); got != http.StatusNotFound {
		t.Errorf("status %d", got)
	}
	if text := f.awaitWhy("/nowhere/after of "); strings.Contains(text, "/nowhere/before of") {
		t.Errorf("tells what it cannot know:\n%s", text)
	}
}
