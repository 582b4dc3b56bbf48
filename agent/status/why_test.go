package status

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight/pilotlight/agent/why"
)

var failures = Why{At: liveAt, Epoch: 3, Since: began, Findings: []why.Finding{{
	Flag: "UO", Kind: "cluster", Where: "api", Counter: "cluster.api.upstream_rq_pending_overflow", What: "request", Count: 4,
	Text: "4 requests to cluster api: not sent, since its limits are reached", Instead: "raise <them>",
}}}

// explaining is a Config that has these failures.
func explaining(t *testing.T) Config {
	c := configOf(t, serving())
	c.Why = func(context.Context) (Why, error) { return failures, nil }
	return c
}

// strangers are requests that are not of a program on this host.
var strangers = map[string]func(*http.Request){
	"from another host":           func(r *http.Request) { r.RemoteAddr = "10.0.0.9:5" },
	"from Envoy":                  func(r *http.Request) { r.RemoteAddr = "127.0.0.1:1" },
	"by a peer that is gone":      func(r *http.Request) { r.RemoteAddr = "127.0.0.1:2" },
	"by redirected traffic":       func(r *http.Request) { r.RemoteAddr = "127.0.0.6:5" },
	"by a name that was rebound":  func(r *http.Request) { r.Host = "evil.test" },
	"by a page of another site":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
	"by a script of another site": func(r *http.Request) { r.Header.Set("Origin", "http://evil.test") },
	"through a proxy":             func(r *http.Request) { r.Header.Set("X-Forwarded-For", "10.0.0.9") },
}

// ask sends a request of a program on this host, with a change.
func ask(h http.Handler, path string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := received("GET", path)
	r.RemoteAddr, r.Host = "127.0.0.1:5", "localhost:15020"
	change(r)
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, r)
	return recorder
}

func unchanged(*http.Request) {}

func TestWhyIsForThisHostOnly(t *testing.T) {
	c := explaining(t)
	var got Why
	if answer := ask(Handler(c), "/why", unchanged); answer.Code != 200 || json.Unmarshal(answer.Body.Bytes(), &got) != nil || len(got.Findings) != 1 || got.Findings[0] != failures.Findings[0] {
		t.Errorf("got %d %s", answer.Code, answer.Body)
	}
	for name, change := range strangers {
		if answer := ask(Handler(c), "/why", change); answer.Code != http.StatusForbidden || strings.Contains(answer.Body.String(), "api") {
			t.Errorf("%s: got %d %s", name, answer.Code, answer.Body)
		}
	}
	owner := ask(Owner(c, c.Envoy), "/why", func(r *http.Request) { r.Host, r.RemoteAddr = HostAgent, "@" })
	if owner.Code != 200 {
		t.Errorf("by the owner's socket: got %d %s", owner.Code, owner.Body)
	}
}

// Envoy is asked once a second at most, however many ask the agent; a failure is not kept.
func TestWhyIsKeptForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, fail := 0, false
		a := &asking{ask: func(context.Context) (Why, error) {
			asked++
			if fail {
				return Why{}, errors.New("no Envoy is running")
			}
			return Why{At: time.Now()}, nil
		}}
		for _, step := range []struct {
			after time.Duration
			fail  bool
			asked int
		}{{0, false, 1}, {999 * time.Millisecond, false, 1}, {time.Millisecond, false, 2}, {time.Second, true, 3}, {0, true, 4}, {0, false, 5}, {0, false, 5}} {
			<-time.After(step.after)
			fail = step.fail
			if _, err := a.get(t.Context()); (err != nil) != step.fail || asked != step.asked {
				t.Errorf("%+v: asked %d times, %v", step, asked, err)
			}
		}
	})
}

func TestWhyWithoutEnvoy(t *testing.T) {
	c := explaining(t)
	c.Why = func(context.Context) (Why, error) { return Why{}, errors.New("no Envoy is running") }
	if answer := ask(Handler(c), "/why", unchanged); answer.Code != 503 || answer.Body.String() != "no Envoy is running\n" {
		t.Errorf("got %d %q", answer.Code, answer.Body)
	}
}
