package health

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

const (
	silence   = 2 * time.Second  // without an answer: unready, and a hang if the main thread does nothing meanwhile
	busyBound = 60 * time.Second // a main thread that works this long without an answer is not coming back

	// certificateGrace is how long certificates that were valid may be faulty before that counts: Envoy serves on with
	// those that it has, and a set that is written file by file is wrong for a moment.
	certificateGrace = 5 * time.Second
)

// State is what is remembered of observations. The zero value has seen nothing.
type State struct {
	Pid        int
	Epoch      int
	Conditions [len(types)]Condition
	CDS, LDS   Rejected
	Discovery  Condition // zero where it is not known
	Refused    []Refused // of the other types
	Hang       Hang
	Replace    bool

	Observed time.Time // last
	Faulty   time.Time // since when valid certificates are not any more; zero when they are

	Answered time.Time     // when the admin last did, or was excused; zero before it ever did
	Silent   time.Time     // the first observation without an answer since; zero when there is none
	CPU      time.Duration // of the main thread, when it last advanced in the silence
	Advanced time.Time     // when that was
}

// Next takes an observation in.
func (s State) Next(o Observation, now time.Time) State {
	if o.Process == Gone || o.Pid != s.Pid || o.Epoch != s.Epoch {
		s = s.anew(o, now)
	}
	s.Observed = now
	s.certificates(o.CertificateFault, now)
	switch o.Process {
	case Gone:
		s.set(processUp, false, "no Envoy runs", now)
		return s
	case Stopped:
		s.set(processUp, false, "the process is stopped", now)
		s.set(adminAnswers, false, "the process is stopped", now)
		s.Hang, s.Replace = HangStopped, true
		s.Silent = time.Time{} // what it has not answered is no fault of its own, once it goes on
		return s
	}
	s.set(processUp, true, fmt.Sprintf("pid %d", o.Pid), now)
	s = s.admin(o, now)
	if o.Link != nil && o.AsksCDS && !s.Conditions[cdsReceived].Status {
		s.set(cdsReceived, false, o.Link.why(), now)
	}
	if o.Config != nil {
		s = s.received(o, *o.Config, now)
	}
	return s
}

// anew forgets what was true of another process.
func (s State) anew(o Observation, now time.Time) State {
	next := State{Pid: o.Pid, Epoch: o.Epoch, Conditions: s.Conditions, Faulty: s.Faulty}
	for _, i := range []int{adminAnswers, cdsReceived, ldsReceived, workersStarted, listenersBound} {
		next.set(i, false, "not yet", now)
	}
	return next
}

func (s *State) set(i int, status bool, reason string, now time.Time) {
	c := &s.Conditions[i]
	if c.Since.IsZero() || c.Status != status {
		c.Since = now
	}
	c.Status, c.Reason = status, reason
}

// certificates that were valid count as such until their fault has lasted.
func (s *State) certificates(fault string, now time.Time) {
	switch {
	case fault == "":
		s.Faulty = time.Time{}
	case s.Faulty.IsZero():
		s.Faulty = now
	}
	valid := fault == "" || s.Conditions[certificatesValid].Status && now.Sub(s.Faulty) < certificateGrace
	s.set(certificatesValid, valid, cmp.Or(fault, "valid"), now)
}

// admin judges an answer, or that there is none.
func (s State) admin(o Observation, now time.Time) State {
	s.Hang, s.Replace = HangNone, false
	switch {
	case o.Answer != nil:
		s.Answered, s.Silent = now, time.Time{}
		ready, reason := o.Answer.judge(o.Epoch)
		s.set(adminAnswers, ready, reason, now)
		return s
	case o.Unasked != "": // no fault of Envoy's; but what was true once does not stay so for ever
		s.Silent = time.Time{}
		if now.Sub(s.Answered) >= stale {
			s.set(adminAnswers, false, "the agent cannot ask: "+o.Unasked, now)
		}
		return s
	case !o.AdminExpected: // it serves on, and what it answered last still holds
		s.Silent = time.Time{}
		if !s.Answered.IsZero() {
			s.Answered = now
		}
		return s
	case s.Silent.IsZero():
		s.Silent, s.CPU, s.Advanced = now, o.CPU, now
	case o.CPU > s.CPU:
		s.CPU, s.Advanced = o.CPU, now
	}
	if s.Answered.IsZero() {
		return s // it starts: how long it may take is not known here
	}
	if now.Sub(s.Answered) >= silence {
		s.set(adminAnswers, false, "no answer since "+s.Answered.UTC().Format(time.RFC3339), now)
	}
	if o.Deaf { // certain at once; a moment is left for what it is about to say itself, such as its end
		s.set(adminAnswers, false, "nobody listens at its admin", now)
		if now.Sub(s.Silent) >= silence {
			s.Hang, s.Replace = HangDeaf, true
		}
		return s
	}
	return s.hang(now)
}

// hang counts from observation to observation: when the whole machine was stopped, none was made.
func (s State) hang(now time.Time) State {
	switch {
	case now.Sub(s.Advanced) >= silence:
		s.Hang, s.Replace = HangSilent, true
	case now.Sub(s.Silent) >= silence:
		s.Hang, s.Replace = HangBusy, now.Sub(s.Silent) >= busyBound
	}
	return s
}

func (a Answer) judge(epoch int) (ready bool, reason string) {
	switch {
	case a.Epoch != epoch:
		return false, fmt.Sprintf("epoch %d answers, want %d", a.Epoch, epoch)
	case !a.Ready:
		reason = "/ready says " + cmp.Or(strings.TrimSpace(a.State), "nothing")
		if a.Waits != "" {
			reason += ": " + a.Waits
		}
		return false, reason
	}
	return true, fmt.Sprintf("epoch %d", epoch)
}
