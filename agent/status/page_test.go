package status

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/why"
	"github.com/pilotlight/pilotlight/internal/golden"
)

const (
	token  = "Bearer abcdef0123456789"
	script = `<script src="http://evil.test/x.js">`
)

// paged is a Config whose document has hostile texts and secrets.
func paged(t *testing.T) Config {
	c := configOf(t, but(func(d *Document) {
		d.Supervisor.Events = append(d.Supervisor.Events, agent.Event{At: liveAt, Note: agent.Failed, Epoch: 2, Why: script + " authorization: " + token})
		d.Past.LastExit.Lines = []string{"a", script + "\x1b[31m", "authorization: " + token}
		d.Past.LastFailure = d.Past.LastExit
	}))
	c.Why = func(context.Context) (Why, error) {
		w := failures
		w.Findings = append(w.Findings, why.Finding{Flag: "UF", Text: script, Instead: "a & b"})
		return w, nil
	}
	c.Page = func() Page {
		return Page{Records: []string{"/etc/istio/proxy/x/flight/1.json", "/etc/istio/proxy/x/flight/2.json"}, Settings: "caToken  " + token + "  flag --caToken\n"}
	}
	return c
}

func TestPage(t *testing.T) {
	d := paged(t)
	w, _ := d.Why(t.Context())
	text := pageText(d.Document(), d.Page(), w, nil, liveAt.Add(100*24*time.Hour))
	for _, never := range []string{"<script", "abcdef0123456789", "\x1b", "style=", "http://evil.test/x.js\""} {
		if strings.Contains(text, never) {
			t.Errorf("has %q", never)
		}
	}
	golden.Text(t, strings.NewReplacer("</tr>", "</tr>\n", "<h2>", "\n<h2>").Replace(text))
}

// The page has the last twenty failed requests, the newest first, without what looks like a secret.
func TestPageOfFailedRequests(t *testing.T) {
	var w Why
	for i := range 25 {
		w.Requests = append(w.Requests, why.Request{
			At: liveAt.Add(time.Duration(i) * time.Second), Flags: []string{"UF", "URX"}, Code: 503, Text: fmt.Sprintf("GET api/%d %s: authorization: %s", i, script, token), Instead: "a & b",
		})
	}
	text := pageText(Document{}, Page{}, w, nil, liveAt)
	for _, never := range []string{"<script", "abcdef0123456789", "GET api/4 "} {
		if strings.Contains(text, never) {
			t.Errorf("has %q", never)
		}
	}
	last := strings.Index(text, "<td>"+clock(liveAt.Add(24*time.Second))+"</td><td>UF,URX</td><td>503</td><td>GET api/24 ")
	first := strings.Index(text, "<td>GET api/5 ")
	if n := strings.Count(text, "<td>GET api/"); n != pageFailures || last < 0 || first < last || !strings.Contains(text, "<td>a &amp; b</td>") {
		t.Errorf("%d requests, the last at %d, the first at %d:\n%s", n, last, first, text)
	}
}

func TestPageOfAnAgentThatHasJustStarted(t *testing.T) {
	text := pageText(Document{}, Page{}, Why{}, errors.New("no Envoy is running"), liveAt)
	for _, want := range []string{"<strong>not ready</strong>", "not known: no Envoy is running", "<h2>Exits</h2><p>None.</p>"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
}

// A browser may load nothing from elsewhere, and no other host or site gets the page.
func TestPageIsForThisHostOnly(t *testing.T) {
	c := paged(t)
	for path, kind := range map[string]string{"/": "text/html", "/page.css": "text/css"} {
		answer := ask(Handler(c), path, unchanged)
		h := answer.Header()
		if answer.Code != 200 || !strings.HasPrefix(h.Get("Content-Type"), kind) || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Set-Cookie") != "" {
			t.Errorf("%s: got %d %v", path, answer.Code, h)
		}
		for name, change := range strangers {
			if answer := ask(Handler(c), path, change); answer.Code != http.StatusForbidden || strings.Contains(answer.Body.String(), "<") {
				t.Errorf("%s %s: got %d %s", path, name, answer.Code, answer.Body)
			}
		}
	}
	if got := ask(Handler(c), "/", unchanged).Header().Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'self';") {
		t.Errorf("policy is %q", got)
	}
	if got := ask(Handler(c), "/favicon.ico", unchanged); got.Code != http.StatusNoContent { // the page has none, and a browser asks for it
		t.Errorf("/favicon.ico: got %d", got.Code)
	}
	if got := ask(Handler(c), "/other", unchanged); got.Code != http.StatusNotFound {
		t.Errorf("/other: got %d", got.Code)
	}
	if got := ask(Handler(c), "/", func(r *http.Request) { r.Method = http.MethodPost }); got.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: got %d", got.Code)
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 90 * time.Second: "1m30s", 47 * time.Hour: "47h0m0s", 48 * time.Hour: "2 days", 30*24*time.Hour - 1: "29 days"} {
		if got := span(d); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}
