package health

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestBypass(t *testing.T) {
	to := func(port uint16, client string) Direct {
		return Direct{Port: port, Client: netip.MustParseAddrPort(client)}
	}
	ended := func(d Direct) Direct {
		d.Ended = true
		return d
	}
	a, b, c := to(8080, "10.0.0.7:1000"), to(8080, "10.0.0.7:1001"), to(8080, "10.0.0.8:1000")
	ssh, metrics := to(22, "10.0.0.7:1000"), to(9090, "10.0.0.7:1000")
	look := func(passed int64, direct ...Direct) Look {
		return Look{Passed: passed, Ports: map[uint16]int64{8080: passed, 9090: 0}, Direct: direct}
	}
	cut := look(5, b)
	cut.Cut = true
	unconfigured := Look{Direct: []Direct{a}}
	for name, test := range map[string]struct {
		looks []Look
		found string // one letter for each look: - nothing, ? suspected, ! found
	}{
		"nothing":                             {[]Look{look(0), look(0)}, "--"},
		"no redirection":                      {[]Look{look(0, a), look(0, a), look(0, a)}, "?!!"},
		"other clients":                       {[]Look{look(0, a), look(0, c)}, "?!"},
		"one look alone":                      {[]Look{look(0, a), look(0), look(0, a)}, "?-?"},
		"made a moment later":                 {[]Look{look(0, a), look(1, a), look(1, a)}, "?--"},
		"mended":                              {[]Look{look(0, a), look(0, a), look(1), look(1)}, "?!--"},
		"mended, an old connection stays":     {[]Look{look(0, a), look(0, a), look(1, a), look(1, a)}, "?!--"},
		"mended, and nobody comes":            {[]Look{look(0, a), look(0, a), look(0), look(0)}, "?!!!"},
		"sshd":                                {[]Look{look(0, ssh), look(0, ssh)}, "--"},
		"no port of it is configured":         {[]Look{unconfigured, unconfigured}, "--"},
		"a port that is left out":             {[]Look{look(3, metrics), look(3, metrics), look(4, metrics), look(4, metrics)}, "----"},
		"a port that is left out, of two":     {[]Look{look(3, metrics), look(3, to(9090, "10.0.0.7:2")), look(3, to(9090, "10.0.0.7:3"))}, "---"},
		"older than the redirection":          {[]Look{look(3, a), look(3, a), look(3, a)}, "---"},
		"the rules were flushed":              {[]Look{look(3), look(3, a), look(3, a), look(3, b)}, "-?!!"},
		"flushed, beside an old connection":   {[]Look{look(3, a), look(3, a, b), look(3, a, b)}, "-?!"},
		"flushed, and mended":                 {[]Look{look(3), look(3, a), look(3, a), look(4, a), look(4, a)}, "-?!--"},
		"more than are compared":              {[]Look{look(5, a), cut, cut}, "---"},
		"ended before the first look":         {[]Look{look(0, ended(a)), look(0, ended(a))}, "--"},
		"one after the other":                 {[]Look{look(0, ended(a)), look(0, ended(a), ended(b)), look(0, ended(b))}, "-?!"},
		"another Envoy of a pod without":      {[]Look{look(0, a), look(0, a), look(0, a)}, "?!!"},
		"another Envoy after a flush":         {[]Look{look(9), look(9, a), look(9, a), look(0, a)}, "-?!!"},
		"another Envoy, which gets traffic":   {[]Look{look(9), look(9, a), look(9, a), look(1, a)}, "-?!-"},
		"another Envoy, of one that is whole": {[]Look{look(9, metrics), look(0, metrics), look(0, metrics)}, "---"},
	} {
		t.Run(name, func(t *testing.T) {
			var s Bypass
			now, got := time.Unix(1000, 0), ""
			for _, l := range test.looks {
				s = s.Next(l, now)
				now = now.Add(time.Minute)
				switch {
				case s.Found() && s.Suspects():
					t.Error("found and suspected")
				case s.Found():
					got += "!"
				case s.Suspects():
					got += "?"
				default:
					got += "-"
				}
				if (s.Verdict() != nil) != s.Found() {
					t.Errorf("the verdict is %v", s.Verdict())
				}
			}
			if got != test.found {
				t.Errorf("got %s, want %s", got, test.found)
			}
		})
	}
}

// What is found is said with the first look's time and the last client before it was found, and does not change while it lasts.
func TestBypassIsSaid(t *testing.T) {
	direct := func(client string) Look {
		return Look{Ports: map[uint16]int64{8080: 0}, Direct: []Direct{{Port: 8080, Client: netip.MustParseAddrPort(client)}}}
	}
	at := time.Unix(1000, 0)
	s := Bypass{}.Next(direct("10.0.0.7:1"), at).Next(direct("10.0.0.8:1"), at.Add(time.Second))
	for _, later := range []Bypass{s, s.Next(direct("10.0.0.9:1"), at.Add(time.Minute)), s.Next(Look{}, at.Add(time.Minute))} {
		if got := later.Verdict(); got == nil || *got != (Bypassed{at, 8080, netip.MustParseAddr("10.0.0.8")}) {
			t.Errorf("got %+v", got)
		}
	}
	v := s.Add(Verdict{Ready: true, Degraded: "certificates: x"})
	if !strings.HasPrefix(v.Degraded, "certificates: x; traffic is not redirected to Envoy: 10.0.0.8 reaches port 8080") || !strings.Contains(v.Degraded, "pod-init") || !v.Ready {
		t.Errorf("got %+v", v)
	}
	if v := s.Add(Verdict{}); v.Degraded != "" || v.Bypassed == nil {
		t.Errorf("one that is not ready: %+v", v)
	}
	if v := (Bypass{}).Add(Verdict{Ready: true}); v.Degraded != "" || v.Bypassed != nil {
		t.Errorf("nothing is found, and it says %+v", v)
	}
}
