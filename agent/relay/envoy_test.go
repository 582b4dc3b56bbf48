package relay

import (
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent/lastgood"
)

// An Envoy that refuses its listeners has no whole configuration, and yet waits for nothing: discovery is not silent.
func TestWaits(t *testing.T) {
	e := newEnvoy(1)
	now := time.Unix(100, 0)
	for i, step := range []struct {
		request      lastgood.Request
		waits, whole bool
	}{
		{lastgood.Request{Type: lastgood.TypeCluster}, true, false},
		{lastgood.Request{Type: lastgood.TypeCluster, Nonce: "1"}, false, false},
		{lastgood.Request{Type: lastgood.TypeListener}, true, false},
		{lastgood.Request{Type: lastgood.TypeListener, Nonce: "1", Refused: true}, false, false},
		{lastgood.Request{Type: lastgood.TypeSecret}, false, false}, // which may be refused for ever
		{lastgood.Request{Type: lastgood.TypeListener, Nonce: "2"}, false, true},
		{lastgood.Request{Type: lastgood.TypeEndpoints}, true, false},
	} {
		e.request(step.request, now)
		if waits, whole := e.waits(), e.whole(now); waits != step.waits || whole != step.whole {
			t.Errorf("step %d: waits %t, whole %t", i, waits, whole)
		}
	}
	if !e.whole(now.Add(patience)) {
		t.Error("it waits for ever")
	}
}

func TestWants(t *testing.T) {
	const routes, endpoints = lastgood.TypeRoutes, lastgood.TypeEndpoints
	type step func(e *envoy, now time.Time)
	request := func(r lastgood.Request) step { return func(e *envoy, now time.Time) { e.request(r, now) } }
	asks := func(typeURL string, names ...string) step {
		return request(lastgood.Request{Type: typeURL, Subscribe: names})
	}
	gets := func(typeURL, nonce string, names ...string) step {
		return func(e *envoy, _ time.Time) { e.sent(typeURL, nonce, names) }
	}
	accepts := func(typeURL, nonce string) step { return request(lastgood.Request{Type: typeURL, Nonce: nonce}) }
	refuses := func(typeURL, nonce string) step {
		return request(lastgood.Request{Type: typeURL, Nonce: nonce, Refused: true})
	}
	listeners := accepts(lastgood.TypeListener, "l")
	for _, test := range []struct {
		name  string
		steps []step
		after time.Duration
		want  string // a piece; empty for nothing
	}{
		{"listeners are on the way", []step{asks(lastgood.TypeListener)}, 0, "LDS has not answered"},
		{"listeners without routes by RDS", []step{listeners}, 0, ""},
		{"routes are on the way", []step{asks(routes, "80", "81"), listeners}, 0, "route table 80, 81: not accepted yet"},
		{"many", []step{asks(routes, "1", "2", "3", "4", "5"), listeners}, 0, "1, 2, 3, and 2 more"},
		{"one has come", []step{asks(routes, "80", "81"), listeners, gets(routes, "a", "80"), accepts(routes, "a")}, 0, "route table 81:"},
		{"one has come, without an answer", []step{asks(routes, "80"), listeners, gets(routes, "a", "80")}, 0, "route table 80:"},
		{"the answer to another response", []step{asks(routes, "80"), listeners, gets(routes, "a", "80"), accepts(routes, "b")}, 0, "80"},
		{"both have come", []step{asks(routes, "80", "81"), listeners, gets(routes, "a", "80", "81"), accepts(routes, "a")}, 0, ""},
		{"one is refused", []step{asks(routes, "80", "81"), listeners, gets(routes, "a", "80"), refuses(routes, "a")}, 0, "80, 81"},
		{
			"one is refused, and stays so",
			[]step{asks(routes, "80", "81"), listeners, gets(routes, "a", "80"), refuses(routes, "a")},
			searchTime, "route table 81:",
		},
		{
			"it is mended",
			[]step{asks(routes, "80"), listeners, gets(routes, "a", "80"), refuses(routes, "a"), gets(routes, "b", "80"), accepts(routes, "b")},
			0, "",
		},
		{"it never comes", []step{asks(routes, "80"), listeners}, arrivalTime, ""},
		{"endpoints", []step{asks(endpoints, "c"), listeners}, 0, "endpoints of c: not accepted yet"},
		{"a secret may never come", []step{asks(lastgood.TypeSecret, "default"), listeners}, 0, ""},
		{"no longer asked for", []step{asks(routes, "80"), request(lastgood.Request{Type: routes, Unsubscribe: []string{"80"}}), listeners}, 0, ""},
		{
			"another stream has the table",
			[]step{
				asks(routes, "80"), listeners, func(e *envoy, _ time.Time) { e.ended() },
				request(lastgood.Request{Type: routes, Subscribe: []string{"80"}, Versions: map[string]string{"80": "1"}}),
			},
			0, "",
		},
		{
			"a nonce of the stream before",
			[]step{asks(routes, "80"), listeners, gets(routes, "a", "80"), func(e *envoy, _ time.Time) { e.ended() }, accepts(routes, "a")},
			0, "80",
		},
		{"of memory", []step{asks(routes, "80"), func(e *envoy, _ time.Time) { e.suffice() }}, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, now := newEnvoy(1), time.Unix(100, 0)
			for _, do := range test.steps {
				do(e, now)
			}
			now = now.Add(test.after)
			got := e.lacks(now)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("lacks %q, want %q", got, test.want)
			}
			if got != "" {
				return
			}
			e.request(lastgood.Request{Type: routes, Subscribe: []string{"later"}}, now)
			if again := e.lacks(now); again != "" || len(e.wants.names) > 0 {
				t.Errorf("what a serving Envoy subscribes to counts too: %q", again)
			}
		})
	}
}
