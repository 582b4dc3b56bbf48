package health

import (
	"testing"
	"time"
)

// The answer to a wait for discovery says what is missing.
func TestLink(t *testing.T) {
	for _, test := range []struct {
		link Link
		want string
	}{
		{Link{Hosts: 1}, "not yet"},
		{Link{Hosts: 1, WrongIdentity: 2, Why: "discovery shows a, want b"}, "not yet: discovery shows a, want b"},
		{Link{Hosts: 1, Connected: 1, Why: "it was down"}, "not yet: discovery is connected, and has not answered"},
		{Link{}, "not yet: discovery's name has no address"},
		{Link{Hosts: 1, ConnectFailures: 3}, "not yet: 3 connections to discovery failed"},
		{Link{Hosts: 1, Connected: 1, ConnectFailures: 3}, "not yet: discovery is connected, and has not answered"},
		{Link{Hosts: 1, Connected: 1, Ended: 2}, "not yet: discovery has ended 2 streams without an answer"},
		{Link{Hosts: 1, ConnectFailures: 2, WrongIdentity: 2}, "not yet: discovery shows a certificate of another identity (2 times)"},
		{Link{Hosts: 1, ConnectFailures: 2, Unverified: 2}, "not yet: discovery's certificate is expired, or no root vouches for it (2 times)"},
	} {
		o := Observation{Pid: 7, Process: Running, AdminExpected: true, AsksCDS: true, AsksLDS: true, Link: &test.link}
		s := State{}.Next(o, time.Unix(100, 0))
		if c := s.Conditions[cdsReceived]; c.Status || c.Reason != test.want {
			t.Errorf("%+v: CDSReceived is %v, %q; want false, %q", test.link, c.Status, c.Reason, test.want)
		}
	}
	// A type that was received stays received.
	s := State{}.Next(Observation{
		Pid: 7, Process: Running, AsksCDS: true, Config: &Config{CDS: Updates{Success: 1}}, Link: &Link{},
	}, time.Unix(100, 0))
	if c := s.Conditions[cdsReceived]; !c.Status {
		t.Errorf("CDSReceived is false, %q", c.Reason)
	}
}
