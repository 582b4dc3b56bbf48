package health

import (
	"testing"
	"time"
)

// FuzzNext reads each byte as an observation a quarter of a second to four minutes after the one before.
func FuzzNext(f *testing.F) {
	f.Add([]byte{0x00, 0x01, 0x12, 0x23, 0xff})
	f.Add([]byte{0x80, 0xc0, 0xc4, 0xc8})
	f.Fuzz(func(t *testing.T, sequence []byte) {
		var s State
		var lastAnswer, silentFrom, lastValid, faultyFrom time.Time
		now, faulty := began, false
		for _, b := range sequence {
			o := decode(b)
			before, pid := s.Verdict(now), s.Pid
			now = now.Add(250 * time.Millisecond << (b & 3 * 3))
			s = s.Next(o, now)
			v := s.Verdict(now)
			answered := (o.Process == Running || o.Process == Traced) && o.Answer != nil
			if answered || !o.AdminExpected {
				lastAnswer, silentFrom = now, time.Time{}
			} else if silentFrom.IsZero() {
				silentFrom = now
			}
			if o.CertificateFault == "" {
				lastValid, faulty = now, false
			} else if !faulty {
				faultyFrom, faulty = now, true
			}
			switch {
			case v.Ready && o.Process != Running && (o.Process != Traced || o.Answer == nil):
				t.Fatalf("ready though the process is %q", o.Process)
			case v.Ready && !now.Before(o.CertificateEnds) && (lastValid.IsZero() || faulty && now.Sub(faultyFrom) >= certificateGrace):
				t.Fatal("ready without valid certificates")
			case s.Verdict(now.Add(stale)).Ready:
				t.Fatalf("ready by an observation that is %s old", stale)
			case v.Ready && !answered && now.Sub(lastAnswer) >= silence:
				t.Fatalf("ready %s after the last answer", now.Sub(lastAnswer))
			case v.Ready && answered && (!o.Answer.Ready || o.Answer.Epoch != o.Epoch):
				t.Fatal("ready against the admin's word")
			case v.Replace && (o.Process == Gone || o.Process == Traced), v.Replace && answered:
				t.Fatal("a process is to be replaced that is gone or answers")
			case v.Replace && o.Process == Running && (!o.AdminExpected || now.Sub(silentFrom) < silence):
				t.Fatal("a process is to be replaced for no silence")
			case v.Degraded != "" && !v.Ready:
				t.Fatal("degraded but not ready")
			}
			for i, c := range v.Conditions {
				if c.Since.After(now) || c.Since.Before(before.Conditions[i].Since) {
					t.Fatalf("%s since %s, before %s, now %s", c.Type, c.Since, before.Conditions[i].Since, now)
				}
				was := before.Conditions[i]
				if o.Pid == pid && !was.Since.IsZero() && (c.Status != was.Status) == c.Since.Equal(was.Since) {
					t.Fatalf("%s: status %v → %v, since %s → %s", c.Type, was.Status, c.Status, was.Since, c.Since)
				}
			}
		}
	})
}

// decode makes an observation of the upper six bits of a byte.
func decode(b byte) Observation {
	o := serving()
	switch b >> 5 {
	case 1:
		o.Process = Stopped
	case 2:
		o = Observation{AdminExpected: true}
	case 3, 4:
		o.Answer, o.Config = nil, nil
	case 5:
		o.Answer.Ready = b&4 != 0
		o.Config = nil
	case 6:
		o.AdminExpected, o.Answer, o.Config = false, nil, nil
	case 7:
		o.Pid, o.Config.CDS.Rejected = 8, 1
	}
	if b&4 != 0 && o.Process == Running {
		o.Process = Traced
	}
	if b&16 != 0 {
		o.CertificateFault = "expired"
		if b&2 != 0 {
			o.CertificateEnds = began.Add(time.Minute)
		}
	}
	if b&8 != 0 {
		o.CPU += time.Duration(b)
	}
	return o
}
