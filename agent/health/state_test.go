package health

import (
	"strings"
	"testing"
	"time"
)

var began = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// serving is what is seen of a good Envoy.
func serving() Observation {
	return Observation{
		Pid: 7, Epoch: 1, Process: Running, CPU: time.Second, AdminExpected: true,
		Answer: &Answer{Epoch: 1, Ready: true, State: "LIVE\n"}, AsksCDS: true, AsksLDS: true,
		Config: &Config{CDS: Updates{Success: 1}, LDS: Updates{Success: 1}, WorkersStarted: true, Listeners: 2},
	}
}

// but is serving with a change.
func but(change func(*Observation)) Observation {
	o := serving()
	change(&o)
	return o
}

// faulty is a good Envoy whose certificate files are not.
func faulty() Observation {
	return but(func(o *Observation) { o.CertificateFault = "key.pem: is empty" })
}

// holding is a good Envoy whose certificate files are not, and that holds a certificate for a time after began.
func holding(valid time.Duration) Observation {
	o := faulty()
	o.CertificateEnds = began.Add(valid)
	return o
}

// mute is a good Envoy whose admin does not answer, and whose main thread has used an amount of CPU.
func mute(cpu time.Duration) Observation {
	return but(func(o *Observation) { o.Answer, o.Config, o.CPU = nil, nil, cpu })
}

// busy is n observations, one a second from a second on, of a main thread that works and does not answer.
func busy(from, n int) (out []seen) {
	for i := range n {
		at := time.Duration(from+i) * time.Second
		out = append(out, seen{at, mute(at)})
	}
	return out
}

// seen is an observation at a time after began.
type seen struct {
	at time.Duration
	Observation
}

func verdict(observations []seen) Verdict {
	var s State
	now := began
	for _, o := range observations {
		now = began.Add(o.at)
		s = s.Next(o.Observation, now)
	}
	return s.Verdict(now)
}

func TestReady(t *testing.T) {
	config := func(change func(*Config)) func(*Observation) {
		return func(o *Observation) { change(o.Config) }
	}
	for _, test := range []struct {
		name     string
		sequence []seen
		falses   string // the conditions that do not hold, with their reasons
		degraded string
	}{
		{"nothing seen", nil, "ProcessUp: not observed yet; AdminAnswers: not observed yet; CDSReceived: not observed yet; " +
			"LDSReceived: not observed yet; WorkersStarted: not observed yet; ListenersBound: not observed yet; CertificatesValid: not observed yet", ""},
		{"all holds", []seen{{0, serving()}}, "", ""},
		{
			"server.live is 1 while /ready is 503",
			[]seen{{0, but(func(o *Observation) { o.Answer.Ready, o.Answer.State = false, "PRE_INITIALIZING\n" })}},
			"AdminAnswers: /ready says PRE_INITIALIZING", "",
		},
		{
			"/ready is the parent's",
			[]seen{{0, but(func(o *Observation) { o.Answer.Epoch = 0 })}},
			"AdminAnswers: epoch 0 answers, want 1", "",
		},
		{
			"what it waits for",
			[]seen{{0, but(func(o *Observation) {
				o.Answer.Ready, o.Answer.State, o.Answer.Waits = false, "INITIALIZING\n", "x waits for SDS default"
			})}},
			"AdminAnswers: /ready says INITIALIZING: x waits for SDS default", "",
		},
		{
			"the agent has no descriptor left for a moment",
			[]seen{{0, serving()}, {time.Second, but(func(o *Observation) { o.Answer, o.Config, o.Unasked = nil, nil, "too many open files" })}},
			"", "",
		},
		{
			"nor for a while",
			[]seen{{0, serving()}, {stale, but(func(o *Observation) { o.Answer, o.Config, o.Unasked = nil, nil, "too many open files" })}},
			"AdminAnswers: the agent cannot ask: too many open files", "",
		},
		{
			"its socket was removed: at once",
			[]seen{
				{0, serving()},
				{time.Second, but(func(o *Observation) { o.Answer, o.Config, o.Deaf = nil, nil, true })},
			},
			"AdminAnswers: nobody listens at its admin", "",
		},
		{
			"a stranger has drained it",
			[]seen{{0, serving()}, {time.Second, but(config(func(c *Config) { c.Stopped = 2 }))}},
			"ListenersBound: 2 listeners were told to close, and not by this agent", "",
		},
		{
			"redirected traffic has nowhere to go",
			[]seen{{0, but(config(func(c *Config) {
				c.Missing, c.LDS = "virtualInbound", Updates{Success: 1, Rejected: 1, Rejection: Rejection{Text: "bad address", At: began}}
			}))}},
			"ListenersBound: traffic is redirected, and there is no listener virtualInbound for it: bad address", "",
		},
		{
			"LIVE and empty after the fetch timeout: discovery was never there",
			[]seen{{0, but(config(func(c *Config) { c.CDS, c.LDS = Updates{}, Updates{} }))}},
			"CDSReceived: not yet; LDSReceived: not yet", "",
		},
		{
			"rejected but not ready for another reason",
			[]seen{{0, but(func(o *Observation) { o.Config.CDS, o.Config.WorkersStarted = Updates{Rejected: 1}, false })}},
			"WorkersStarted: not yet; ListenersBound: not yet", "",
		},
		{
			"counters reset by somebody",
			[]seen{{0, serving()}, {time.Second, but(config(func(c *Config) { *c = Config{} }))}},
			"", "",
		},
		{
			"the bootstrap asks for nothing",
			[]seen{{0, but(func(o *Observation) {
				o.AsksCDS, o.AsksLDS, o.Config.CDS, o.Config.LDS = false, false, Updates{}, Updates{}
			})}},
			"", "",
		},
		{
			"statistics are not asked each time",
			[]seen{{0, serving()}, {time.Second, but(func(o *Observation) { o.Config = nil })}},
			"", "",
		},
		{"no valid certificate, never", []seen{{0, faulty()}}, "CertificatesValid: key.pem: is empty", ""},
		{"certificates are written file by file", []seen{{0, serving()}, {time.Second, faulty()}, {4 * time.Second, serving()}}, "", ""},
		{
			"faulty again, after they were valid for a moment", []seen{
				{0, serving()}, {time.Second, faulty()}, {5 * time.Second, serving()}, {6 * time.Second, faulty()}, {10 * time.Second, faulty()},
			}, "", "",
		},
		{
			"faulty for as long as that is a moment",
			[]seen{{0, serving()}, {time.Second, faulty()}, {6 * time.Second, faulty()}},
			"CertificatesValid: key.pem: is empty", "",
		},
		{"faulty, and Envoy holds a valid one", []seen{{0, serving()}, {time.Second, holding(72 * time.Hour)}, {5 * time.Second, holding(72 * time.Hour)}}, "", ""},
		{
			"faulty for long, and Envoy holds a valid one",
			[]seen{{0, serving()}, {time.Second, holding(72 * time.Hour)}, {7 * time.Second, holding(72 * time.Hour)}},
			"", "certificates: Envoy holds a certificate that is valid until 2026-11-24T12:00:00Z (2 days left), " +
				"that of the files cannot be used: key.pem: is empty",
		},
		{
			"what Envoy holds ends",
			[]seen{{0, serving()}, {time.Second, holding(time.Hour)}, {time.Hour, holding(time.Hour)}},
			"CertificatesValid: the certificate that Envoy holds ended at 2026-11-21T13:00:00Z, and that of the files cannot be used: key.pem: is empty", "",
		},
		{"faulty, what Envoy held is forgotten", []seen{{0, serving()}, {time.Second, holding(time.Hour)}, {time.Minute, faulty()}}, "CertificatesValid: key.pem: is empty", ""},
		{
			"gone",
			[]seen{{0, serving()}, {time.Second, Observation{}}},
			"ProcessUp: no Envoy runs; AdminAnswers: not yet; CDSReceived: not yet; LDSReceived: not yet; WorkersStarted: not yet; ListenersBound: not yet", "",
		},
		{
			"a newcomer under the same epoch number has received nothing",
			[]seen{{0, serving()}, {time.Second, but(func(o *Observation) { o.Pid, o.Config = 8, nil })}},
			"CDSReceived: not yet; LDSReceived: not yet; WorkersStarted: not yet; ListenersBound: not yet", "",
		},
		{"draining", []seen{{0, serving()}, {1, but(func(o *Observation) { o.Answer.Ready, o.Answer.State = false, "DRAINING" })}}, "AdminAnswers: /ready says DRAINING", ""},
		{"one answer is late", []seen{{0, serving()}, {1900 * time.Millisecond, mute(1)}}, "", ""},
		{
			"no answer for two seconds",
			[]seen{{0, serving()}, {time.Second, mute(1)}, {2 * time.Second, mute(1)}},
			"AdminAnswers: no answer since 2026-11-21T12:00:00Z", "",
		},
		{
			"answers again",
			[]seen{{0, serving()}, {time.Second, mute(1)}, {2 * time.Second, mute(1)}, {3 * time.Second, serving()}},
			"", "",
		},
		{
			"a parent that has handed its admin over",
			[]seen{{0, serving()}, {time.Hour, but(func(o *Observation) { o.AdminExpected, o.Answer, o.Config = false, nil, nil })}},
			"", "",
		},
		{
			"a parent whose admin is expected again gets its time",
			[]seen{
				{0, serving()},
				{time.Hour, but(func(o *Observation) { o.AdminExpected, o.Answer, o.Config = false, nil, nil })},
				{time.Hour + time.Second, mute(1)},
			},
			"", "",
		},
		{
			"goes on after a stop, no answer yet",
			[]seen{{0, serving()}, {1, but(func(o *Observation) { o.Process = Stopped })}, {2, mute(1)}},
			"AdminAnswers: the process is stopped", "",
		},
		{
			"held by a debugger",
			[]seen{{0, serving()}, {1, but(func(o *Observation) { o.Process, o.Answer = Traced, nil })}},
			"AdminAnswers: a debugger holds the process", "",
		},
		{"followed by a debugger, and answers", []seen{{0, serving()}, {1, but(func(o *Observation) { o.Process = Traced })}}, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := verdict(test.sequence)
			var falses []string
			for _, c := range v.Conditions {
				if !c.Status {
					falses = append(falses, string(c.Type)+": "+c.Reason)
				}
			}
			if got := strings.Join(falses, "; "); got != test.falses || v.Ready != (got == "") {
				t.Errorf("ready %v, false are\n     %q\nwant %q", v.Ready, got, test.falses)
			}
			if v.Degraded != test.degraded {
				t.Errorf("degraded %q, want %q", v.Degraded, test.degraded)
			}
		})
	}
}

func TestHang(t *testing.T) {
	s := time.Second
	stopped := but(func(o *Observation) { o.Process, o.Answer, o.Config = Stopped, nil, nil })
	traced := mute(s)
	traced.Process = Traced
	parent := mute(1)
	parent.AdminExpected = false
	deaf := mute(s)
	deaf.Deaf = true
	busyAndDeaf := func(cpu time.Duration) Observation { o := mute(cpu); o.Deaf = true; return o }
	unasked := mute(s)
	unasked.Unasked = "too many open files"
	applies := func(cpu time.Duration) Observation {
		o := mute(cpu)
		o.Relayed = &Relayed{Connected: true, Applying: true}
		return o
	}
	applyingDeaf := func(cpu time.Duration) Observation { o := applies(cpu); o.Deaf = true; return o }
	applying := []seen{{0, serving()}}
	for i := range 605 {
		applying = append(applying, seen{time.Duration(1+i) * s, applies(s + time.Duration(i))})
	}
	for _, test := range []struct {
		name     string
		sequence []seen
		want     Hang
		replace  bool
	}{
		{"serving", []seen{{0, serving()}}, HangNone, false},
		{"stopped: at once", []seen{{0, serving()}, {s, stopped}}, HangStopped, true},
		{"stopped before it ever answered", []seen{{0, stopped}}, HangStopped, true},
		{"stopped and continued", []seen{{0, serving()}, {s, stopped}, {2 * s, serving()}}, HangNone, false},
		{"continued, and needs a moment", []seen{{0, serving()}, {s, stopped}, {9 * s, mute(s)}, {10 * s, mute(s)}}, HangNone, false},
		{"silent for a moment", []seen{{0, serving()}, {s, mute(s)}, {2900 * time.Millisecond, mute(s)}}, HangNone, false},
		{"silent", []seen{{0, serving()}, {s, mute(s)}, {2 * s, mute(s)}, {3 * s, mute(s)}}, HangSilent, true},
		{"silent, was busy before", []seen{{0, serving()}, {s, mute(s)}, {5 * s, mute(2 * s)}, {7 * s, mute(2 * s)}}, HangSilent, true},
		{"answers again", []seen{{0, serving()}, {s, mute(s)}, {4 * s, mute(s)}, {5 * s, serving()}}, HangNone, false},
		{"the whole machine was stopped", []seen{{0, serving()}, {time.Hour, mute(s)}}, HangNone, false},
		{"busy", []seen{{0, serving()}, {s, mute(s)}, {2 * s, mute(2 * s)}, {3 * s, mute(3 * s)}, {4 * s, mute(4 * s)}}, HangBusy, false},
		{"busy for 59 s", append([]seen{{0, serving()}}, busy(1, 60)...), HangBusy, false},
		{"busy for 60 s", append([]seen{{0, serving()}}, busy(1, 61)...), HangBusy, true},
		{"starts, and has not answered yet", []seen{{0, mute(s)}, {time.Minute, mute(s)}}, HangNone, false},
		{"a parent without admin", []seen{{0, serving()}, {s, parent}, {9 * s, parent}}, HangNone, false},
		{"a parent without admin, stopped", []seen{{0, serving()}, {s, parent}, {2 * s, stopped}}, HangStopped, true},
		{"its admin is expected again", []seen{{0, serving()}, {9 * s, parent}, {10 * s, mute(s)}}, HangNone, false},
		{"nobody listens for a moment", []seen{{0, serving()}, {s, deaf}, {2 * s, deaf}}, HangNone, false},
		{"nobody listens", []seen{{0, serving()}, {s, deaf}, {3 * s, deaf}}, HangDeaf, true},
		{"nobody listens, and the main thread works", []seen{{0, serving()}, {s, busyAndDeaf(2 * s)}, {3 * s, busyAndDeaf(3 * s)}}, HangDeaf, true},
		{"nobody listens yet", []seen{{0, deaf}, {time.Minute, deaf}}, HangNone, false},
		{"the agent cannot ask", []seen{{0, serving()}, {s, unasked}, {9 * s, unasked}, {time.Minute, unasked}}, HangNone, false},
		{"the agent could not ask, and it is silent for a moment", []seen{{0, serving()}, {s, unasked}, {9 * s, unasked}, {10 * s, mute(s)}}, HangNone, false},
		{"held by a debugger", []seen{{0, serving()}, {s, traced}, {time.Hour, traced}}, HangNone, false},
		{"continued by a debugger, and needs a moment", []seen{{0, serving()}, {s, traced}, {time.Hour, mute(s)}, {time.Hour + s, mute(s)}}, HangNone, false},
		{"let go by a debugger, and silent", []seen{{0, serving()}, {s, traced}, {9 * s, mute(s)}, {11 * s, mute(s)}}, HangSilent, true},
		{"gone", []seen{{0, serving()}, {s, stopped}, {2 * s, Observation{}}}, HangNone, false},
		{"another process", []seen{{0, serving()}, {s, stopped}, {2 * s, but(func(o *Observation) { o.Pid = 8 })}}, HangNone, false},
		{"applies configuration for 10 minutes", applying[:600], HangBusy, false},
		{"applies it for longer", applying, HangBusy, true},
		{"applies it, and does nothing", append(applying[:100:100], seen{102 * s, applies(s)}), HangSilent, true},
		{"has applied it, and is busy for 59 s more", append(applying[:100:100], busy(100, 59)...), HangBusy, false},
		{"has applied it, and is busy for 60 s more", append(applying[:100:100], busy(100, 60)...), HangBusy, true},
		{"has applied it, and does nothing", append(applying[:100:100], seen{100 * s, mute(98 * s)}, seen{102 * s, mute(98 * s)}), HangSilent, true},
		{"has applied it and answered, and is busy for 60 s", append(append(applying[:100:100], seen{100 * s, serving()}), busy(101, 61)...), HangBusy, true},
		{"applies it, and nobody listens", []seen{{0, serving()}, {s, applyingDeaf(2 * s)}, {3 * s, applyingDeaf(3 * s)}}, HangDeaf, true},
		{"applies it, stopped", append(applying[:9:9], seen{9 * s, stopped}), HangStopped, true},
		{"has applied it, and answers", append(applying[:100:100], seen{100 * s, serving()}), HangNone, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if v := verdict(test.sequence); v.Hang != test.want || v.Replace != test.replace {
				t.Errorf("hang %q, replace %v; want %q, %v", v.Hang, v.Replace, test.want, test.replace)
			}
		})
	}
}

// An Envoy that applies configuration, or makes an answer for others, keeps its readiness: what it serves is served on by its workers.
func TestReadyWhileItApplies(t *testing.T) {
	s := time.Second
	applies := func(cpu time.Duration) Observation {
		o := mute(cpu)
		o.Relayed = &Relayed{Connected: true, Applying: true}
		return o
	}
	sequence := []seen{{0, serving()}}
	for i := range 605 {
		sequence = append(sequence, seen{time.Duration(1+i) * s, applies(s + time.Duration(i))})
	}
	reads := func(cpu time.Duration) Observation {
		o := mute(cpu)
		o.Reads = true
		return o
	}
	reading := func(n int) []seen {
		out := []seen{{0, serving()}}
		for i := range n {
			out = append(out, seen{time.Duration(1+i) * s, reads(time.Duration(i) * s)})
		}
		return out
	}
	unready := but(func(o *Observation) { o.Answer.Ready = false })
	for name, test := range map[string]struct {
		sequence []seen
		ready    bool
	}{
		"for a minute":                            {sequence[:60], true},
		"for ten minutes":                         {sequence[:600], true},
		"for longer":                              {sequence, false},
		"it makes an answer":                      {reading(59), true},
		"for too long":                            {reading(61), false},
		"it makes one, and hangs":                 {append(reading(10), seen{13 * s, reads(9 * s)}), false},
		"it was not ready":                        {append([]seen{{0, unready}}, sequence[1:60]...), false},
		"it does nothing":                         {append(sequence[:60:60], seen{62 * s, applies(s)}), false},
		"busy with what it has acknowledged":      {append(sequence[:60:60], seen{60 * s, mute(99 * s)}), true},
		"busy with that, after an answer":         {append(sequence[:60:60], seen{60 * s, serving()}, seen{65 * s, mute(99 * s)}), true},
		"busy with that for too long":             {append(sequence[:60:60], busy(60, 60)...), false},
		"busy a minute after it has been applied": {append(sequence[:60:60], seen{60 * s, serving()}, seen{119 * s, mute(99 * s)}), false},
		"it was not ready, and has acknowledged the configuration": {append(append([]seen{{0, unready}}, sequence[1:60]...), seen{60 * s, mute(99 * s)}), false},
		"busy, and answers again":                                  {append(sequence[:60:60], seen{60 * s, serving()}), true},
		"busy, without the relay":                                  {[]seen{{0, serving()}, {s, mute(s)}, {3 * s, mute(2 * s)}}, false},
	} {
		if v := verdict(test.sequence); v.Ready != test.ready {
			t.Errorf("%s: ready %v: %s", name, v.Ready, v.Reason())
		}
	}
}

func TestSinceIsOfTheStatus(t *testing.T) {
	v := verdict([]seen{
		{0, but(func(o *Observation) { o.Config = nil })},
		{time.Second, serving()},
		{time.Minute, but(func(o *Observation) { o.Config.CDS.Success = 9 })},
	})
	c := v.Conditions[cdsReceived]
	if !c.Since.Equal(began.Add(time.Second)) || c.Reason != "9 accepted, 0 rejected" {
		t.Errorf("got since %s, reason %q; want the second of the first answer, and the last count", c.Since, c.Reason)
	}
}

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

// The relay's word counts for the link, not that of Envoy's stream, which ends at the agent.
func TestRelayed(t *testing.T) {
	now := time.Unix(1000, 0)
	o := Observation{
		Pid: 7, Process: Running, AdminExpected: true, AsksCDS: true, AsksLDS: true, Answer: &Answer{Ready: true},
		Config: &Config{CDS: Updates{Success: 1}, LDS: Updates{Success: 1}, WorkersStarted: true, Listeners: 1, Discovery: DiscoveryConnected},
	}
	for _, test := range []struct {
		name      string
		relayed   Relayed
		connected bool
		reason    string // of the link
		degraded  string
	}{
		{"discovery answers", Relayed{Connected: true}, true, "connected", ""},
		{"it is away", Relayed{Why: "refused"}, false, "the stream to discovery is lost: Envoy serves on with what it has: refused", ""},
		{
			"the memory is served",
			Relayed{Why: "refused", Serves: time.Unix(100, 0)},
			false, "lost",
			"serves the configuration of 1970-01-01T00:01:40Z, discovery is away (refused)",
		},
		{
			"it answers, and Envoy has not come back",
			Relayed{Serves: time.Unix(100, 0)},
			false, "lost",
			"serves the configuration of 1970-01-01T00:01:40Z, discovery is away (it has not answered yet)",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			o.Relayed = &test.relayed
			v := State{}.Next(o, now).Verdict(now)
			if !v.Ready || v.Degraded != test.degraded || v.Refusing || (v.LastGood != nil) != (test.degraded != "") {
				t.Errorf("got %+v", v)
			}
			if v.Discovery == nil || v.Discovery.Status != test.connected || !strings.Contains(v.Discovery.Reason, test.reason) {
				t.Errorf("got %+v", v.Discovery)
			}
		})
	}
	o.Relayed = &Relayed{Connected: true, Lacks: "route table 80"}
	s := State{}.Next(o, now)
	if v := s.Verdict(now); v.Ready || v.Reason() != "LDSReceived: not yet: route table 80" {
		t.Errorf("without a route table: %+v", v)
	}
	o.Relayed = &Relayed{Connected: true}
	s = s.Next(o, now)
	o.Relayed = &Relayed{Connected: true, Lacks: "route table 81"}
	if v := s.Next(o, now).Verdict(now); !v.Ready {
		t.Errorf("one that was ready lacks another table: %+v", v)
	}
	o.Relayed = nil
	if v := (State{}).Next(o, now).Verdict(now); v.Discovery == nil || !v.Discovery.Status {
		t.Errorf("without a relay Envoy's own stream counts: %+v", v.Discovery)
	}
}
