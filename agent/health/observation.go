package health

import "time"

// Process is the state of Envoy's process.
type Process string

// States of a process. The zero value is Gone.
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
	Unasked       string  // why it could not be asked, where that is the agent's own failure, such as no descriptor left
	Deaf          bool    // no process listens at the admin, though no newcomer has taken it over
	Answer        *Answer // of the admin; nil for none. It is given up soon enough to be seen every second

	AsksCDS, AsksLDS bool    // whether the bootstrap asks for them
	Delta            bool    // discovery sends changes, not the state of the world
	Config           *Config // nil when it was not asked for
	Link             *Link   // to discovery, of an Envoy that waits for it; nil when it was not asked for

	CertificateFault string // empty when they are valid
}

// Answer is the admin's.
type Answer struct {
	Epoch int    // of the Envoy that answers
	Ready bool   // /ready is 200
	State string // the body of /ready
	Waits string // what an Envoy that initializes waits for; empty where it was not asked for
}

// Config is what Envoy has received since its start.
type Config struct {
	CDS, LDS       Updates
	WorkersStarted bool
	Listeners      int64  // active: bound, and listened on once the workers run
	CreateFailures int64  // listeners that could not be made, each time that it was tried
	Stopped        int64  // that have begun to close, and not because of the agent
	Missing        string // a listener without which redirected traffic goes nowhere, empty for none
	Refused        []Refused
	Discovery      Discovery // how its stream to discovery is
	Dynamic        *int64    // those of Listeners that discovery sent; nil when it was not asked for
}

// Refused is a type of which Envoy has rejected something, and has not accepted it since: RDS, EDS or SDS.
type Refused struct {
	Type string
	Rejection
}

// Discovery is how an Envoy's stream to discovery is; empty where it has none.
type Discovery string

// Its states.
const (
	DiscoveryConnected Discovery = "connected"
	DiscoveryLost      Discovery = "lost"
)

// Updates counts answers of discovery. One bad resource makes it a rejected one, though the good ones of it are taken.
type Updates struct {
	Success, Rejected int64
	Accepted          time.Time // the last success; zero for none
	Rejection         Rejection // the last one that Envoy's log told of
	Mended            bool      // Envoy has since taken what that one named, or was sent a configuration without it
}

// Rejection is Envoy's text of one, and when it was written.
type Rejection struct {
	Text string
	At   time.Time
}

func (u Updates) received() bool { return u.Success+u.Rejected > 0 }
