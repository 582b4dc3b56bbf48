package health

import (
	"fmt"
	"time"
)

// Process is the state of Envoy's process.
type Process string

// States of a process. The zero value is Gone.
const (
	Gone    Process = ""
	Running Process = "running"
	Stopped Process = "stopped" // by SIGSTOP: state T
	Traced  Process = "traced"  // held by a debugger: state t
)

// Observation is the observed state of a proxy at a time.
type Observation struct {
	Pid     int // a new process begins a new state, even under an old epoch number
	Epoch   int // the one that should serve
	Process Process
	CPU     time.Duration // used by the main thread

	AdminExpected bool    // false for a parent whose newcomer has taken the admin over
	Unasked       string  // the agent's own failure that prevented the query, such as no descriptor left; else empty
	Answers       bool    // it has answered another program since the last observation
	Reads         bool    // it makes an answer that another program has requested through the agent, such as /config_dump
	Deaf          bool    // no process listens at the admin, though no newcomer has taken it over
	Answer        *Answer // of the admin; nil for none. The query has a timeout, so that silence is observed in time

	AsksCDS, AsksLDS bool     // whether the bootstrap subscribes to them
	Delta            bool     // delta xDS, not the state of the world
	Config           *Config  // nil when it was not queried
	Relayed          *Relayed // the link to discovery of an Envoy that the agent's relay serves; nil for none
	Link             *Link    // to discovery, of an Envoy that waits for it; nil when it was not queried

	CertificateFault string    // of the files, empty when they are valid
	CertificateEnds  time.Time // of the one that Envoy holds in spite of the fault; zero if it holds none
	NoCertificate    bool      // the workload has none
}

// Answer is an answer of the admin.
type Answer struct {
	Epoch int    // of the Envoy that answers
	Ready bool   // /ready is 200
	State string // the body of /ready
	Waits string // what an initializing Envoy waits for; empty when it was not queried
}

// Config counts the configuration that Envoy has received since its start.
type Config struct {
	CDS, LDS       Updates
	WorkersStarted bool
	Listeners      int64  // active: bound, and listened on once the workers run
	CreateFailures int64  // failed attempts to create a listener
	Stopped        int64  // listeners that have begun to close, but not by the agent's order
	Missing        string // a listener that redirected traffic needs and that is missing; empty for none
	Lost           string // why it does not listen at an address at which the proxy has served before; empty if it does
	Shared         string // another process that listens on one of Envoy's addresses; empty for none
	Intercepted    bool   // programs do not call Envoy's ports themselves, so shared ports do not make the proxy unready
	Refused        []Refused
	Discovery      Discovery // state of its stream to discovery
	Dynamic        *int64    // those of Listeners that discovery sent; nil when it was not queried
}

// Refused is a type with a rejected resource that Envoy has not accepted since: RDS, EDS or SDS.
type Refused struct {
	Type string `json:"Type"`
	Rejection
}

// Discovery is the state of an Envoy's stream to discovery; empty where it has none.
type Discovery string

// Its states.
const (
	DiscoveryConnected Discovery = "connected"
	DiscoveryLost      Discovery = "lost"
)

// Relayed is the state of the relay's stream to discovery.
type Relayed struct {
	Connected bool   `json:"Connected"`
	Why       string `json:"Why"` // why not
	// Serves is until when the remembered configuration was the newest, if Envoy has that one; else zero
	Serves time.Time `json:"Serves"`
	// Lacks is what a starting Envoy has not got of its first configuration; empty for nothing
	Lacks    string `json:"-"`
	Applying bool   `json:"Applying"` // Envoy has a response that it has not answered yet
}

// Updates counts responses of discovery. A response with one bad resource counts as rejected, though Envoy accepts its
// good resources.
type Updates struct {
	Success, Rejected int64
	Accepted          time.Time // the last success; zero for none
	Rejection         Rejection // the last one in Envoy's log
	Mended            bool      // each resource that it named has since been accepted or withdrawn
}

// Rejection is Envoy's log text about a rejection, and its time.
type Rejection struct {
	Text string    `json:"Text"`
	At   time.Time `json:"At"`
}

func (u Updates) received() bool { return u.Success+u.Rejected > 0 }

// Link is the state of the connection to discovery of an Envoy that waits for its first configuration, counted since
// its start.
type Link struct {
	Hosts           int64 // known addresses of discovery
	Connected       int64 // connections now
	ConnectFailures int64
	WrongIdentity   int64  // certificates with another subject alternative name than is wanted
	Unverified      int64  // certificates that are expired, or not issued under one of the roots
	Ended           int64  // ADS streams that have ended
	Why             string // the agent's own diagnosis, with the remedy; empty for none
}

// why states the problem, for a person to read.
func (l Link) why() string {
	switch {
	case l.Why != "" && l.Connected == 0:
		return "not yet: " + l.Why
	case l.WrongIdentity > 0:
		return fmt.Sprintf("not yet: discovery shows a certificate of another identity (%d times)", l.WrongIdentity)
	case l.Unverified > 0:
		return fmt.Sprintf("not yet: discovery's certificate is expired, or no root vouches for it (%d times)", l.Unverified)
	case l.Hosts == 0:
		return "not yet: discovery's name has no address"
	case l.Connected == 0 && l.ConnectFailures > 0:
		return fmt.Sprintf("not yet: %d connections to discovery failed", l.ConnectFailures)
	case l.Connected > 0 && l.Ended > 0:
		return fmt.Sprintf("not yet: discovery has ended %d streams without an answer", l.Ended)
	case l.Connected > 0:
		return "not yet: discovery is connected, and has not answered"
	}
	return "not yet"
}
