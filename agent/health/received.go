package health

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

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
