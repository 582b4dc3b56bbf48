package health

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

const (
	silence   = 2 * time.Second  // without an answer: not ready, and a hang if the main thread uses no CPU meanwhile
	busyBound = 60 * time.Second // a main thread that works this long without an answer hangs

	// applyBound is that of one that applies configuration: as long as it works on a response, its readiness keeps its last word. It
	// keeps it for busyBound after the response too, which Envoy acknowledges before its main thread has done all of the work, and while
	// Envoy makes an answer for another program: that of a large /config_dump takes seconds.
	applyBound = 10 * time.Minute

	// certificateGrace is how long certificates that were valid may be faulty before the condition becomes false: Envoy
	// serves on with those that it has, and a set that is written file by file is inconsistent for a moment.
	certificateGrace = 5 * time.Second
)

// State is the memory of earlier observations. The zero value is the state before the first one.
type State struct {
	Pid        int                   `json:"Pid"`
	Epoch      int                   `json:"Epoch"`
	Conditions [len(types)]Condition `json:"Conditions"`
	CDS        Rejected              `json:"CDS"`
	LDS        Rejected              `json:"LDS"`
	Discovery  Condition             `json:"Discovery"` // zero where it is not known
	Relayed    Relayed               `json:"Relayed"`
	Refused    []Refused             `json:"Refused"` // of the other types
	// Certificates is what is wrong with the files while Envoy holds a certificate that is valid; empty for nothing
	Certificates string `json:"Certificates"`
	// Shared is another process that listens on one of the addresses; empty for none
	Shared  string `json:"Shared"`
	Hang    Hang   `json:"Hang"`
	Replace bool   `json:"Replace"`

	Observed time.Time `json:"Observed"` // the last observation
	Faulty   time.Time `json:"Faulty"`   // since when the certificates have a fault; zero when they have none
	Usable   bool      `json:"Usable"`   // the files have been without a fault

	// Answered is the last answer of the admin, or the last time that none was expected; zero before any
	Answered time.Time `json:"Answered"`
	// Silent is the first observation without an answer since then; zero when there is none
	Silent   time.Time     `json:"Silent"`
	CPU      time.Duration `json:"CPU"`      // of the main thread, when it last advanced in the silence
	Advanced time.Time     `json:"Advanced"` // when that was
	Applied  time.Time     `json:"Applied"`  // the last observation of a response that was being applied
}

// Next returns the state after an observation.
func (s State) Next(o Observation, now time.Time) State {
	if o.Process == Gone || o.Pid != s.Pid || o.Epoch != s.Epoch {
		s = s.anew(o, now)
	}
	s.Observed = now
	s.certificates(o, now)
	switch o.Process {
	case Gone:
		s.set(processUp, false, "no Envoy runs", now)
		return s
	case Stopped:
		s.set(processUp, false, "the process is stopped", now)
		s.set(adminAnswers, false, "the process is stopped", now)
		s.Hang, s.Replace = HangStopped, true
		s.Silent = time.Time{} // once it continues, its earlier silence does not count
		return s
	}
	s.set(processUp, true, fmt.Sprintf("pid %d", o.Pid), now)
	s = s.admin(o, now)
	if o.Link != nil && o.AsksCDS && !s.Conditions[cdsReceived].Status {
		s.set(cdsReceived, false, o.Link.why(), now)
	}
	s.relayed(o.Relayed, now)
	if o.Config != nil {
		s = s.received(o, *o.Config, now)
	}
	return s
}

// anew returns the state for a new process, without what was true of the old one.
func (s State) anew(o Observation, now time.Time) State {
	next := State{Pid: o.Pid, Epoch: o.Epoch, Conditions: s.Conditions, Faulty: s.Faulty, Usable: s.Usable}
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

// certificates updates the condition of the certificates. After a fault of the files Envoy goes on with the certificate
// that it holds, as long as that is valid; if it holds none, those of the files count as valid until the fault has lasted,
// unless they have had it from the start.
func (s *State) certificates(o Observation, now time.Time) {
	s.Certificates = ""
	fault := o.CertificateFault
	switch {
	case fault == "":
		s.Faulty, s.Usable = time.Time{}, true
	case s.Faulty.IsZero():
		s.Faulty = now
	}
	switch {
	case o.NoCertificate && fault == "":
		s.set(certificatesValid, true, "the workload has none", now)
		return
	case fault != "" && now.Before(o.CertificateEnds):
		held := fmt.Sprintf("Envoy holds a certificate that is valid until %s (%s)",
			o.CertificateEnds.UTC().Format(time.RFC3339), left(o.CertificateEnds.Sub(now)))
		s.set(certificatesValid, true, held, now)
		if now.Sub(s.Faulty) >= certificateGrace {
			s.Certificates = fmt.Sprintf("certificates: %s, that of the files cannot be used: %s", held, fault)
		}
		return
	case fault != "" && !o.CertificateEnds.IsZero():
		s.set(certificatesValid, false, fmt.Sprintf("the certificate that Envoy holds ended at %s, and that of the files cannot be used: %s",
			o.CertificateEnds.UTC().Format(time.RFC3339), fault), now)
		return
	}
	valid := fault == "" || s.Usable && s.Conditions[certificatesValid].Status && now.Sub(s.Faulty) < certificateGrace
	s.set(certificatesValid, valid, cmp.Or(fault, "valid"), now)
}

// left returns a time to come in words: "12 days left", "30 hours left".
func left(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%d days left", d/day)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours left", d/time.Hour)
	}
	return fmt.Sprintf("%d minutes left", d/time.Minute)
}

// admin judges an answer of the admin, or its absence.
func (s State) admin(o Observation, now time.Time) State {
	s.Hang, s.Replace = HangNone, false
	applying := o.Relayed != nil && o.Relayed.Applying
	if applying {
		s.Applied = now
	}
	switch {
	case o.Answer != nil:
		s.Answered, s.Silent = now, time.Time{}
		ready, reason := o.Answer.judge(o.Epoch)
		s.set(adminAnswers, ready, reason, now)
		return s
	case o.Process == Traced: // the person who debugs it continues it
		s.Silent = time.Time{}
		s.set(adminAnswers, false, "a debugger holds the process", now)
		return s
	case o.Unasked != "": // no fault of Envoy's; but the last answer counts only until it is stale
		s.Silent = time.Time{}
		if now.Sub(s.Answered) >= stale {
			s.set(adminAnswers, false, "the agent cannot ask: "+o.Unasked, now)
		}
		return s
	case !o.AdminExpected: // it serves on, and its last answer still counts
		s.Silent = time.Time{}
		if !s.Answered.IsZero() {
			s.Answered = now
		}
		return s
	case o.Answers: // its main thread works; the last answer to the agent still counts
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
		return s // it is starting: its time limit is not known here
	}
	end := s.Silent.Add(busyBound) // of the time that its main thread may work
	switch {
	case applying:
		end = s.Silent.Add(applyBound)
	case s.Applied.After(s.Silent):
		end = s.Applied.Add(busyBound)
	}
	works := now.Before(end) && now.Sub(s.Advanced) < silence && (o.Reads || now.Sub(s.Applied) < busyBound)
	if now.Sub(s.Answered) >= silence && !works {
		s.set(adminAnswers, false, "no answer since "+s.Answered.UTC().Format(time.RFC3339), now)
	}
	if o.Deaf { // no longer ready at once; the kill waits for silence, since the process may be about to exit
		s.set(adminAnswers, false, "nobody listens at its admin", now)
		if now.Sub(s.Silent) >= silence {
			s.Hang, s.Replace = HangDeaf, true
		}
		return s
	}
	return s.hang(now, end)
}

// hang counts time between observations only: none is made while the whole machine is stopped. The main thread may work until end.
func (s State) hang(now, end time.Time) State {
	switch {
	case now.Sub(s.Advanced) >= silence:
		s.Hang, s.Replace = HangSilent, true
	case now.Sub(s.Silent) >= silence:
		s.Hang, s.Replace = HangBusy, !now.Before(end)
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

// Rejected is the record of one type's rejections.
type Rejected struct {
	Count int64     `json:"Count"`
	Last  Rejection `json:"Last"`
	Open  bool      `json:"Open"`  // the last rejection is not known to be mended
	After bool      `json:"After"` // an update was accepted since; under delta it may not have mended the rejection

	Accepted int64 `json:"Accepted"` // successes when the last rejection was seen
}

// received updates the conditions that depend on the configuration. CDS and LDS stay received once they were, since any
// client may reset the counters.
func (s State) received(o Observation, c Config, now time.Time) State {
	s.update(cdsReceived, o.AsksCDS, c.CDS, now)
	if o.Relayed != nil && o.Relayed.Lacks != "" && !s.Conditions[ldsReceived].Status {
		s.set(ldsReceived, false, "not yet: "+o.Relayed.Lacks, now)
	} else {
		s.update(ldsReceived, o.AsksLDS, c.LDS, now)
	}
	s.CDS = s.CDS.next(c.CDS, o.Delta, now)
	s.LDS = s.LDS.next(c.LDS, o.Delta, now)
	s.Refused, s.Shared = c.Refused, c.Shared
	if c.Discovery != "" && o.Relayed == nil {
		s.discovery(c.Discovery == DiscoveryConnected, now)
	}
	if !c.WorkersStarted {
		return s
	}
	s.set(workersStarted, true, "started", now)
	bound, reason := c.bound()
	s.set(listenersBound, bound, reason, now)
	return s
}

func (s *State) discovery(connected bool, now time.Time) {
	if s.Discovery.Since.IsZero() || s.Discovery.Status != connected {
		s.Discovery.Since = now
	}
	s.Discovery.Type, s.Discovery.Status, s.Discovery.Reason = discoveryType, connected, "connected"
	if !connected {
		s.Discovery.Reason = "the stream to discovery is lost: Envoy serves on with what it has"
	}
}

// relayed takes the relay's word for the link: Envoy's own stream ends at the agent.
func (s *State) relayed(r *Relayed, now time.Time) {
	if r == nil {
		s.Relayed = Relayed{}
		return
	}
	s.Relayed = *r
	s.discovery(r.Connected, now)
	if !r.Connected && r.Why != "" {
		s.Discovery.Reason += ": " + r.Why
	}
}

// recalled says which configuration Envoy serves instead of discovery's; empty for none.
func (s State) recalled() string {
	if s.Relayed.Serves.IsZero() {
		return ""
	}
	return fmt.Sprintf("serves the configuration of %s, discovery is away (%s)", s.Relayed.Serves.UTC().Format(time.RFC3339), cmp.Or(s.Relayed.Why, "it has not answered yet"))
}

func (s *State) update(i int, asked bool, u Updates, now time.Time) {
	switch {
	case !asked:
		s.set(i, true, "the bootstrap does not ask for it", now)
	case u.received():
		s.set(i, true, fmt.Sprintf("%d accepted, %d rejected", u.Success, u.Rejected), now)
	}
}

// bound reports whether traffic can come in, with the reason. Envoy is LIVE even if it has no listener: a listener on a
// busy port counts as rejected, like a malformed one. A proxy to which discovery sent no listener is not out of
// service.
func (c Config) bound() (bool, string) {
	switch {
	case c.Stopped > 0:
		return false, fmt.Sprintf("%d listeners were told to close, and not by this agent", c.Stopped)
	case c.Missing != "":
		reason := fmt.Sprintf("traffic is redirected, and there is no listener %s for it", c.Missing)
		if c.LDS.Rejection.Text != "" {
			reason += ": " + c.LDS.Rejection.Text
		}
		return false, reason
	case c.Lost != "":
		return false, c.Lost
	case c.Shared != "" && !c.Intercepted:
		return false, c.Shared
	case c.Dynamic != nil && *c.Dynamic == 0 && c.LDS.Success == 0 && c.LDS.Rejected > 0:
		return false, cmp.Or(c.LDS.Rejection.Text, "every listener of discovery was rejected")
	case c.Listeners == 0 && c.CreateFailures > 0:
		return false, fmt.Sprintf("none; %d could not be made", c.CreateFailures)
	case c.CreateFailures > 0:
		return true, fmt.Sprintf("%d listeners; %d times one could not be made", c.Listeners, c.CreateFailures)
	}
	return true, fmt.Sprintf("%d listeners", c.Listeners)
}

// next updates the record with new counts. Under the state of the world, a success mends an earlier rejection. A delta
// response concerns only the resources that it names, so there Updates.Mended decides.
func (r Rejected) next(u Updates, delta bool, now time.Time) Rejected {
	if u.Rejected > 0 && u.Rejected != r.Count {
		r.Count, r.Open, r.Accepted = u.Rejected, true, u.Success
		if u.Rejection.At.After(r.Last.At) {
			r.Last = u.Rejection
		} else {
			r.Last = Rejection{At: now} // it is not in the log, or has left it
		}
	}
	// By Envoy's clock, and also by the counts, since the clock may have been set back.
	r.After = u.Accepted.After(r.Last.At) || u.Success > r.Accepted
	if r.After && !delta || u.Mended && u.Rejection == r.Last {
		r.Open = false
	}
	return r
}

// degraded describes what is wrong though Envoy serves: the updates that it has rejected, a shared port, the certificates.
func (s State) degraded() string {
	var out []string
	for _, of := range []struct {
		name string
		Rejected
	}{{"CDS", s.CDS}, {"LDS", s.LDS}} {
		if !of.Open {
			continue
		}
		text := fmt.Sprintf("%s: Envoy rejected %d answers, the last at %s", of.name, of.Count, of.Last.At.UTC().Format(time.RFC3339))
		if of.Last.Text != "" {
			text += ": " + of.Last.Text
		}
		if of.After {
			text += " (others were accepted since)"
		}
		out = append(out, text)
	}
	if s.Shared != "" {
		out = append(out, s.Shared)
	}
	for _, r := range s.Refused {
		out = append(out, fmt.Sprintf("%s: Envoy rejected an answer at %s: %s", r.Type, r.At.UTC().Format(time.RFC3339), r.Text))
	}
	for _, text := range []string{s.recalled(), s.Certificates} {
		if text != "" {
			out = append(out, text)
		}
	}
	return strings.Join(out, "; ")
}

// refuses reports whether something that Envoy has refused or shares is wrong.
func (s State) refuses() bool {
	s.Certificates, s.Relayed = "", Relayed{}
	return s.degraded() != ""
}
