package health

import (
	"strings"
	"testing"
	"time"
)

// looks are observations, ten seconds apart, of a good Envoy that has received these.
func looks(delta bool, configs ...Config) []seen {
	var out []seen
	for i, c := range configs {
		c.WorkersStarted = true
		out = append(out, seen{time.Duration(i) * 10 * time.Second, but(func(o *Observation) {
			o.Delta, o.Config, o.AsksCDS, o.AsksLDS = delta, &c, c.CDS.received(), c.LDS.received()
		})})
	}
	return out
}

// at is some seconds after began.
func at(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }

func TestDegraded(t *testing.T) {
	ok := func(n int64, when float64) Updates { return Updates{Success: n, Accepted: at(when)} }
	bad := func(u Updates, n int64, text string, when float64) Updates {
		u.Rejected, u.Rejection = n, Rejection{text, at(when)}
		return u
	}
	const once = "LDS: Envoy rejected 1 answers, the last at 2026-11-21T12:00:05Z: l2: no filter chains"
	for _, test := range []struct {
		name    string
		configs []Config
		delta   bool
		want    string
	}{
		{"all accepted", []Config{{CDS: ok(1, 0), LDS: ok(1, 0)}}, false, ""},
		{
			"the first answer, one bad cluster of several: update_success is 0",
			[]Config{{CDS: bad(Updates{}, 1, "bad: no EDS config", -1), LDS: ok(1, 0)}},
			false,
			"CDS: Envoy rejected 1 answers, the last at 2026-11-21T11:59:59Z: bad: no EDS config",
		},
		{"a later one", []Config{{CDS: ok(1, 0), LDS: ok(1, 0)}, {CDS: ok(1, 0), LDS: bad(ok(1, 0), 1, "l2: no filter chains", 5)}}, false, once},
		{
			"it stays while nothing else comes",
			[]Config{{LDS: bad(ok(1, 0), 1, "l2: no filter chains", 5)}, {LDS: bad(ok(1, 0), 1, "l2: no filter chains", 5)}},
			false, once,
		},
		{
			"mended by the next state of the world",
			[]Config{{LDS: bad(ok(1, 0), 1, "l2: no filter chains", 5)}, {LDS: bad(ok(2, 15), 1, "l2: no filter chains", 5)}},
			false, "",
		},
		{
			"mended after the clock was set back an hour",
			[]Config{{LDS: bad(ok(1, 0), 1, "l2: no filter chains", 5)}, {LDS: bad(ok(2, -3585), 1, "l2: no filter chains", 5)}},
			false, "",
		},
		{"rejected and mended between two looks", []Config{{LDS: ok(1, 0)}, {LDS: bad(ok(2, 7), 1, "l2", 5)}}, false, ""},
		{"mended and rejected between two looks", []Config{{LDS: ok(1, 0)}, {LDS: bad(ok(2, 4), 1, "l2: no filter chains", 5)}}, false, once},
		{
			"rejected again after it was mended",
			[]Config{{LDS: bad(ok(1, 7), 1, "l2", 5)}, {LDS: bad(ok(1, 7), 2, "l3", 15)}},
			false,
			"LDS: Envoy rejected 2 answers, the last at 2026-11-21T12:00:15Z: l3",
		},
		{
			"a delta that is accepted may be about something else",
			[]Config{{LDS: bad(ok(1, 0), 1, "l2: no filter chains", 5)}, {LDS: bad(ok(2, 15), 1, "l2: no filter chains", 5)}},
			true, once + " (others were accepted since)",
		},
		{
			"a delta that is accepted, and what was rejected is there", []Config{
				{LDS: bad(ok(1, 0), 1, "l2", 5)},
				{LDS: func() Updates { u := bad(ok(2, 15), 1, "l2", 5); u.Mended = true; return u }()},
			}, true, "",
		},
		{
			"the log does not tell: the time of the look counts",
			[]Config{{LDS: ok(1, 0)}, {LDS: Updates{Success: 1, Rejected: 1}}},
			false,
			"LDS: Envoy rejected 1 answers, the last at 2026-11-21T12:00:10Z",
		},
		{
			"a rejection whose line is the one before's",
			[]Config{{LDS: bad(ok(1, 0), 1, "old", -5)}, {LDS: bad(ok(1, 0), 2, "old", -5)}},
			false,
			"LDS: Envoy rejected 2 answers, the last at 2026-11-21T12:00:10Z",
		},
		{
			"both types",
			[]Config{{CDS: bad(ok(1, 0), 1, "c", 1), LDS: bad(ok(1, 0), 3, "l", 2)}},
			false,
			"CDS: Envoy rejected 1 answers, the last at 2026-11-21T12:00:01Z: c; LDS: Envoy rejected 3 answers, the last at 2026-11-21T12:00:02Z: l",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if v := verdict(looks(test.delta, test.configs...)); v.Degraded != test.want || !v.Ready {
				t.Errorf("ready %v (%s), degraded\n     %q\nwant %q", v.Ready, v.Reason(), v.Degraded, test.want)
			}
		})
	}
}

func TestListenersBound(t *testing.T) {
	count := func(n int64) *int64 { return &n }
	rejected := Updates{Rejected: 1, Rejection: Rejection{"l1: cannot bind '10.0.0.1:80': Address already in use", at(0)}}
	for _, test := range []struct {
		name   string
		config Config
		want   string // of the reason
		bound  bool
	}{
		{"two", Config{LDS: Updates{Success: 1}, Listeners: 2}, "2 listeners", true},
		{"none was sent: a workload without ports", Config{LDS: Updates{Success: 1}}, "0 listeners", true},
		{"a static bootstrap", Config{Listeners: 1}, "1 listeners", true},
		{
			"every one was rejected: LIVE, and nothing listens but what the bootstrap has",
			Config{LDS: rejected, Listeners: 1, CreateFailures: 1, Dynamic: count(0)},
			"Address already in use", false,
		},
		{
			"every one was rejected, and the log does not tell why",
			Config{LDS: Updates{Rejected: 1}, Dynamic: count(0)},
			"every listener of discovery was rejected", false,
		},
		{
			"one was rejected of two",
			Config{LDS: rejected, Listeners: 1, CreateFailures: 3, Dynamic: count(1)},
			"1 listeners; 3 times one could not be made", true,
		},
		{"rejected later: the last good one stays", Config{LDS: Updates{Success: 1, Rejected: 4}, Listeners: 1}, "1 listeners", true},
		{"accepted, and the workers could not listen", Config{LDS: Updates{Success: 1}, CreateFailures: 2}, "none; 2 could not be made", false},
		{"rejected, and it was not asked what is left", Config{LDS: rejected, Listeners: 1}, "1 listeners", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := verdict(looks(false, test.config))
			if c := v.Conditions[listenersBound]; c.Status != test.bound || v.Holds(ListenersBound) != test.bound || !strings.Contains(c.Reason, test.want) {
				t.Errorf("bound %v, %q; want %v, %q", c.Status, c.Reason, test.bound, test.want)
			}
		})
	}
}

// An observation does not hold for ever: the observer may have stopped.
func TestVerdictGrowsOld(t *testing.T) {
	s := State{}.Next(serving(), began)
	if v := s.Verdict(began.Add(stale - 1)); !v.Ready {
		t.Errorf("not ready just before: %s", v.Reason())
	}
	v := s.Verdict(began.Add(time.Hour))
	if want := "AdminAnswers: not observed since 2026-11-21T12:00:00Z"; v.Ready || v.Reason() != want {
		t.Errorf("an hour later: ready %v, %q; want %q", v.Ready, v.Reason(), want)
	}
	if since := v.Conditions[adminAnswers].Since; !since.Equal(began.Add(stale)) {
		t.Errorf("since %s, want when it grew old", since)
	}
	if v := s.Next(serving(), began.Add(time.Hour)).Verdict(began.Add(time.Hour)); !v.Ready {
		t.Errorf("observed again: %s", v.Reason())
	}
}

// A refusal of another type makes Envoy degraded, as long as it lasts.
func TestRefusedRoutes(t *testing.T) {
	refuses := but(func(o *Observation) {
		o.Config.Refused = []Refused{{"RDS", Rejection{Text: "unknown cluster x", At: began}}}
	})
	v := verdict([]seen{{0, refuses}})
	if want := "RDS: Envoy rejected an answer at 2026-11-21T12:00:00Z: unknown cluster x"; !v.Ready || v.Degraded != want {
		t.Errorf("ready %v, degraded %q; want %q", v.Ready, v.Degraded, want)
	}
	if v := verdict([]seen{{0, refuses}, {time.Second, serving()}}); v.Degraded != "" {
		t.Errorf("degraded %q after it was mended", v.Degraded)
	}
}

// A lost stream to discovery is reported, and is no fault of the proxy.
func TestDiscoveryIsLost(t *testing.T) {
	with := func(d Discovery) Observation { return but(func(o *Observation) { o.Config.Discovery = d }) }
	if v := verdict([]seen{{0, serving()}}); v.Discovery != nil {
		t.Errorf("of one without a stream: %+v", v.Discovery)
	}
	v := verdict([]seen{{0, with(DiscoveryConnected)}, {time.Second, with(DiscoveryLost)}, {2 * time.Second, with(DiscoveryLost)}})
	if d := v.Discovery; !v.Ready || d == nil || d.Status || !d.Since.Equal(began.Add(time.Second)) {
		t.Errorf("ready %v, discovery %+v; want ready, and lost a second after it began", v.Ready, d)
	}
}
