package health

import "time"

// Verdict is what a State means.
type Verdict struct {
	Ready      bool        `json:"ready"`
	Degraded   string      `json:"degraded,omitempty"` // why, though it is ready: Envoy rejected a part
	Conditions []Condition `json:"conditions"`         // always all six, in one order
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
	CertificatesValid Type = "CertificatesValid"
)

// types has the order of a verdict; the places are those of State.conditions.
var types = [...]Type{ProcessUp, AdminAnswers, CDSReceived, LDSReceived, WorkersStarted, CertificatesValid}

const (
	processUp = iota
	adminAnswers
	cdsReceived
	ldsReceived
	workersStarted
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

// How a process hangs. Busy is no fault until it lasts.
const (
	HangNone    Hang = ""
	HangStopped Hang = "stopped"
	HangSilent  Hang = "silent" // no answer, and its main thread does nothing
	HangBusy    Hang = "busy"   // no answer, but its main thread works
)

// Verdict reads the state. The zero State is not ready.
func (s State) Verdict() Verdict {
	v := Verdict{Ready: true, Hang: s.Hang, Replace: s.Replace}
	for i, c := range s.Conditions {
		c.Type, c.Reason = types[i], or(c.Reason, "not observed yet")
		v.Conditions = append(v.Conditions, c)
		v.Ready = v.Ready && c.Status
	}
	if v.Ready {
		v.Degraded = s.Degraded
	}
	return v
}
