package health

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Verdict is the judgement of a State at a time.
type Verdict struct {
	Ready      bool        `json:"ready"`
	Degraded   string      `json:"degraded,omitempty"`  // why, though it is ready: Envoy rejected a part, or certificates are faulty
	Refusing   bool        `json:"-"`                   // it is degraded by something that Envoy rejected or shares: its recovery is to be seen early
	Conditions []Condition `json:"conditions"`          // always all seven, in one order
	Discovery  *Condition  `json:"discovery,omitempty"` // whether its stream is connected; readiness does not depend on it
	LastGood   *time.Time  `json:"last_good,omitempty"` // until when the remembered configuration that Envoy serves was the newest; nil if it is discovery's
	Bypassed   *Bypassed   `json:"bypassed,omitempty"`  // traffic that comes past Envoy, though it should be intercepted; nil for none that was seen
	Hang       Hang        `json:"hang,omitempty"`
	Replace    bool        `json:"replace"` // the process hangs and shall be killed
}

// Type names a condition.
type Type string

// The conditions. A proxy is ready when all hold.
const (
	ProcessUp         Type = "ProcessUp"
	AdminAnswers      Type = "AdminAnswers" // for the expected epoch, and /ready is 200
	CDSReceived       Type = "CDSReceived"
	LDSReceived       Type = "LDSReceived"
	WorkersStarted    Type = "WorkersStarted"
	ListenersBound    Type = "ListenersBound" // at least one, where discovery sent any
	CertificatesValid Type = "CertificatesValid"
)

// discoveryType is the type of Verdict.Discovery.
const discoveryType Type = "DiscoveryConnected"

// types lists the conditions in the order of a verdict; the indices are those of State.Conditions.
var types = [...]Type{ProcessUp, AdminAnswers, CDSReceived, LDSReceived, WorkersStarted, ListenersBound, CertificatesValid}

const (
	processUp = iota
	adminAnswers
	cdsReceived
	ldsReceived
	workersStarted
	listenersBound
	certificatesValid
)

// Condition is one thing that readiness needs.
type Condition struct {
	Type   Type      `json:"type"`
	Status bool      `json:"status"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"` // of the status; the reason may be newer
}

// Hang is how a process hangs.
type Hang string

// The ways to hang. Busy is no fault until it lasts.
const (
	HangNone    Hang = ""
	HangStopped Hang = "stopped"
	HangSilent  Hang = "silent" // no answer, and its main thread does nothing
	HangDeaf    Hang = "deaf"   // no process listens at its admin, so the agent can neither observe nor drain it
	HangBusy    Hang = "busy"   // no answer, but its main thread works
)

// stale is the age at which an observation is too old to count: the agent makes one every few seconds.
const stale = 15 * time.Second

// Verdict judges the state at a time. The zero State is not ready.
func (s State) Verdict(now time.Time) Verdict {
	v := Verdict{Ready: true, Hang: s.Hang, Replace: s.Replace}
	if !s.Observed.IsZero() && now.Sub(s.Observed) >= stale {
		s.set(adminAnswers, false, "not observed since "+s.Observed.UTC().Format(time.RFC3339), s.Observed.Add(stale))
	}
	for i, c := range s.Conditions {
		c.Type, c.Reason = types[i], cmp.Or(c.Reason, "not observed yet")
		v.Conditions = append(v.Conditions, c)
		v.Ready = v.Ready && c.Status
	}
	if !s.Discovery.Since.IsZero() {
		v.Discovery = &s.Discovery
	}
	if !s.Relayed.Serves.IsZero() {
		v.LastGood = &s.Relayed.Serves
	}
	if v.Ready {
		v.Degraded = s.degraded()
		v.Refusing = s.refuses()
	}
	return v
}

// Holds reports whether a condition is true.
func (v Verdict) Holds(t Type) bool {
	return slices.ContainsFunc(v.Conditions, func(c Condition) bool { return c.Type == t && c.Status })
}

// Reason lists the conditions that are false: "CDSReceived: not yet; WorkersStarted: not yet". It is empty when all are
// true.
func (v Verdict) Reason() string {
	var reasons []string
	for _, c := range v.Conditions {
		if !c.Status {
			reasons = append(reasons, string(c.Type)+": "+c.Reason)
		}
	}
	return strings.Join(reasons, "; ")
}
