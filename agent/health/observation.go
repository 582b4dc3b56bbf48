package health

import "time"

// Process is the state of Envoy's process.
type Process string

// What a process may be. The zero value is Gone.
const (
	Gone    Process = ""
	Running Process = "running"
	Stopped Process = "stopped" // by SIGSTOP: state T
)

// Observation is what was seen at a time.
type Observation struct {
	Pid     int // a new process starts anew, even under an old epoch number
	Epoch   int // that should serve
	Process Process
	CPU     time.Duration // that the main thread has used

	AdminExpected bool    // false for a parent that has handed its admin over
	Answer        *Answer // of the admin; nil for none. It is given up soon enough to be seen every second

	AsksCDS, AsksLDS bool    // whether the bootstrap asks for them
	Config           *Config // nil when it was not asked for
	Rejection        string  // Envoy's text of its last rejection, where it is known

	CertificateFault string // empty when they are valid
}

// Answer is the admin's.
type Answer struct {
	Epoch int    // of who answers
	Ready bool   // /ready is 200
	State string // the body of /ready
}

// Config is what Envoy has received since its start.
type Config struct {
	CDS, LDS       Updates
	WorkersStarted bool
	Listeners      int64 // active
}

// Updates counts answers of discovery. One bad resource makes it a rejected one.
type Updates struct{ Success, Rejected int64 }

func (u Updates) received() bool { return u.Success+u.Rejected > 0 }
