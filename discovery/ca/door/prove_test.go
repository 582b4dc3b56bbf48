package door

import (
	"errors"
	"strings"
	"testing"
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
