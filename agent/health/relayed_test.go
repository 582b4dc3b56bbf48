package health

import (
	"strings"
	"testing"
	"time"
)

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
