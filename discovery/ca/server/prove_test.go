package server

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// A stream's token proves what it would prove for a certificate. A join token is none of a stream. Refusals of an address are counted with those of
// certificates, so that nobody guesses tokens at the other door.
func TestTokensOfStreams(t *testing.T) {
	f := newFixture(t)
	for name, c := range map[string]struct{ token, want, log string }{
		"a service account's": {"sa:x:y:shop:web", "spiffe://cluster.local/ns/shop/sa/web", ""},
		"a join token":        {f.tokens.add(t, "web", false), "join-token", "a join token is for certificates alone"},
		"one that is unknown": {"forged", "token", "none that is known here"},
		"nobody can tell":     {"away", "unreachable", "the API server is away"},
	} {
		f.log.Reset()
		id, err := f.Prove(t.Context(), Caller{Token: c.token, Address: peer})
		got := id.String()
		if err != nil {
			got = cause(err)
		}
		if got != c.want || !strings.Contains(f.log.String(), c.log) || err == nil && f.log.Len() > 0 {
			t.Errorf("%s: %s, %v, want %s\n%s", name, got, err, c.want, f.log)
		}
	}
	for range refusalsAtOnce {
		_, _ = f.Prove(t.Context(), Caller{Token: "forged", Address: peer})
	}
	var busy *Busy
	if _, err := f.Prove(t.Context(), Caller{Token: "sa:x:y:shop:web", Address: peer}); !errors.As(err, &busy) || busy.Cause != "rate" {
		t.Errorf("%v after %d refusals, want that it comes too often", err, refusalsAtOnce)
	}
	if _, err := f.Issue(t.Context(), Caller{Token: "sa:x:y:shop:web", Address: peer}, request(t), 0); !errors.As(err, &busy) || busy.Cause != "rate" {
		t.Errorf("%v at the door of certificates, want that it comes too often", err)
	}
	f.domains = nil
	if _, err := f.Prove(t.Context(), Caller{Token: "sa:x:y:shop:web", Address: peer}); !errors.As(err, &busy) || busy.Cause != "not-ready" {
		t.Errorf("%v before the trust domain is known, want that it is not ready", err)
	}
}

// An API server that is asked for a caller who leaves is not away.
func TestACallerThatLeaves(t *testing.T) {
	f := newFixture(t)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	var busy *Busy
	if _, err := f.Issue(ctx, Caller{Token: "away", Address: peer}, request(t), 0); !errors.As(err, &busy) {
		t.Errorf("a certificate: %v", err)
	}
	if _, err := f.Prove(ctx, Caller{Token: "away", Address: peer}); !errors.As(err, &busy) {
		t.Errorf("a stream: %v", err)
	}
	if f.log.Len() > 0 || testutil.CollectAndCount(f.Desk, "pilotlight_ca_refused_total") != 0 {
		t.Errorf("the log has %s, or it is counted", f.log)
	}
	if _, err := f.Issue(ctx, Caller{Token: "forged", Address: peer}, request(t), 0); err == nil || !strings.Contains(f.log.String(), "cause=token") {
		t.Errorf("%v, and the log has %q", err, f.log)
	}
}
