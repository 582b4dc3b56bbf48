package status

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/flight"
	"github.com/pilotlight/pilotlight/agent/health"
)

// Document is the whole state that the agent reports: a copy, of one moment.
type Document struct {
	Node         string
	Supervisor   agent.Status
	Pids         map[int]int // by epoch
	Health       health.Verdict
	Redirected   bool // inbound traffic is said to be redirected
	Certificates []Certificate
	Past         Past
	Dropped      []Dropped
	Recording    *Recording // nil where nothing is to be remembered
	Memory       int64      // of the agent, resident, in bytes
	Upgrades     Upgrades
}

// Upgrades tells how this process has come to run its image of the agent.
type Upgrades struct {
	Count   int       `json:"count"`             // images that have taken over
	At      time.Time `json:"at,omitzero"`       // of the last one, or of the failure
	Pending string    `json:"pending,omitempty"` // version of an image that takes over as soon as nothing is under way
	Failure string    `json:"failure,omitempty"` // why the last one that was asked has not

	// NotInForce lists settings that this image has read and that are not in force yet, each with how they come into force.
	NotInForce []string `json:"not_in_force,omitempty"`
}

// Dropped counts lines that were dropped because the reader of the stream did not keep up.
type Dropped struct {
	Stream string // stderr, or stdout for Envoy's stdout
	Lines  int64
}

// Recording is whether what Envoy accepts is remembered, for an Envoy that starts while discovery is away.
type Recording struct {
	Fault string `json:"fault,omitempty"` // why it is not now: what was remembered before stays
	Ended int64  `json:"ended"`           // how often it has ended so far

	Newest time.Time `json:"newest,omitzero"` // until when what is remembered was the newest configuration; zero for nothing
}

// Certificate is a certificate of the workload, as in its file.
type Certificate struct {
	Path     string     `json:"path"`
	Serial   string     `json:"serial,omitempty"`    // lower-case hex of whole bytes, as in Envoy's /certs: "03e9"
	NotAfter *time.Time `json:"not_after,omitempty"` // of the certificate, or of an issuer in its chain if that is earlier
	Fault    string     `json:"fault,omitempty"`     // why Envoy cannot use it, or that it is missing
	Held     *Held      `json:"held,omitempty"`      // what Envoy uses in spite of the fault
	Renewal  string     `json:"renewal,omitempty"`   // why the authority has given no other one
}

// Held is the certificate that Envoy goes on using after the one in the file got a fault.
type Held struct {
	Serial   string    `json:"serial"`
	NotAfter time.Time `json:"not_after"` // of the certificate, or of an issuer in its chain if that is earlier
}

// ends returns when the certificate that Envoy uses ends; nil if it is not known.
func (c Certificate) ends() *time.Time {
	if c.Held != nil {
		return &c.Held.NotAfter
	}
	return c.NotAfter
}

// Ready reports whether the proxy serves and is to receive work. reason is why not, or else the updates that Envoy has
// rejected. It is false at once when the supervisor stops or is drained, though Envoy serves until the work in flight
// is done.
func (d Document) Ready() (ready bool, reason string) {
	switch {
	case d.Supervisor.Stopping:
		return false, "stopping"
	case d.Supervisor.Drained:
		return false, "drained"
	case !d.Health.Ready:
		return false, d.verdict().Reason()
	}
	return true, d.Health.Degraded
}

// verdict returns the verdict with every condition, also before the first observation.
func (d Document) verdict() health.Verdict {
	if d.Health.Conditions == nil {
		return health.State{}.Verdict(time.Time{})
	}
	return d.Health
}

type epochView struct {
	agent.EpochStatus
	Pid  int     `json:"pid,omitempty"`
	Age  float64 `json:"age_seconds"`
	Live float64 `json:"live_seconds,omitempty"` // since it is live
}

type readinessView struct {
	Since   *time.Time   `json:"since,omitempty"`
	Changes int          `json:"changes"` // ever; the history has the last ones
	History []Transition `json:"history"` // oldest first
}

// statusView is /status.
type statusView struct {
	Node  string `json:"node"`
	Ready bool   `json:"ready"`
	agent.Status
	Epochs       []epochView    `json:"epochs"` // instead of the Status's
	BudgetLeft   int            `json:"budget_left"`
	Health       health.Verdict `json:"health"`
	Readiness    readinessView  `json:"readiness"`
	LastExit     *Exit          `json:"last_exit,omitempty"`    // of any Envoy
	LastFailure  *Exit          `json:"last_failure,omitempty"` // the last unexpected one
	Certificates []Certificate  `json:"certificates"`
	Recording    *Recording     `json:"recording,omitempty"`
	Memory       int64          `json:"memory_bytes"`
	Upgrades     Upgrades       `json:"upgrades"`
}

func (d Document) view(now time.Time) statusView {
	ready, _ := d.Ready()
	v := statusView{
		Node: d.Node, Ready: ready, Status: d.Supervisor, Health: d.verdict(), Epochs: []epochView{},
		BudgetLeft:  max(0, d.Supervisor.Budget-d.Supervisor.Failures),
		Readiness:   readinessView{Changes: d.Past.Changes, History: append([]Transition{}, d.Past.Readiness...)},
		LastExit:    d.Past.LastExit,
		LastFailure: d.Past.LastFailure, Certificates: append([]Certificate{}, d.Certificates...), Recording: d.Recording, Memory: d.Memory,
		Upgrades: d.Upgrades,
	}
	if n := len(d.Past.Readiness); n > 0 {
		v.Readiness.Since = &d.Past.Readiness[n-1].At
	}
	for _, e := range d.Supervisor.Epochs {
		view := epochView{EpochStatus: e, Pid: d.Pids[e.Epoch], Age: seconds(now.Sub(e.StartedAt))}
		if e.LiveAt != nil {
			view.Live = seconds(now.Sub(*e.LiveAt))
		}
		v.Epochs = append(v.Epochs, view)
	}
	return v
}

func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

func writeJSON(w http.ResponseWriter, code int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(document) // the client may have gone away
}

// Transition is a change of readiness.
type Transition struct {
	At     time.Time `json:"at"`
	Ready  bool      `json:"ready"`
	Reason string    `json:"reason,omitempty"` // why it was not ready, or was degraded
}

// Exit is an exit of an Envoy.
type Exit struct {
	At    time.Time `json:"at"`
	Epoch int       `json:"epoch"`
	What  string    `json:"what"`            // the supervisor's note: "Envoy ended unasked"
	Exit  string    `json:"exit"`            // "exit status 1: cannot bind '127.0.0.1:80'"
	Lines []string  `json:"lines,omitempty"` // Envoy's last ones, oldest first, without text that looks like a secret
}

const (
	keptTransitions = 32
	keptLines       = 20
)

// Past is the bounded history of readiness and exits.
type Past struct {
	Readiness   []Transition `json:"Readiness"` // the last ones, oldest first
	Changes     int          `json:"Changes"`   // of readiness, since the start
	LastExit    *Exit        `json:"LastExit"`
	LastFailure *Exit        `json:"LastFailure"`
}

// Journal records the past. The zero Journal is empty.
type Journal struct {
	mu   sync.Mutex
	past Past
}

// Resume goes on with the past of another journal.
func (j *Journal) Resume(past Past) {
	j.mu.Lock()
	defer j.mu.Unlock()
	past.Readiness = past.Readiness[max(0, len(past.Readiness)-keptTransitions):]
	j.past = past
}

// Ready records readiness. It calls ask under its lock, so that an older answer never follows a newer one.
func (j *Journal) Ready(now time.Time, ask func() (ready bool, reason string)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	ready, reason := ask()
	p := &j.past
	if n := len(p.Readiness); n > 0 && p.Readiness[n-1].Ready == ready {
		return
	}
	if len(p.Readiness) > 0 {
		p.Changes++
	}
	p.Readiness = append(p.Readiness[max(0, len(p.Readiness)-keptTransitions+1):], Transition{now, ready, reason})
}

// endings are the notes of an Envoy's exit; true for the unexpected ones.
var endings = map[agent.Note]bool{
	agent.Failed: true, agent.RolledBack: true, agent.Replaced: false, agent.Stopped: false,
}

// Observe records the exits of Envoys among new events of the supervisor. lines returns an epoch's last lines.
func (j *Journal) Observe(news []agent.Event, lines func(epoch int) []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range news {
		failure, isEnd := endings[e.Note]
		if !isEnd {
			continue
		}
		exit := &Exit{At: e.At, Epoch: e.Epoch, What: string(e.Note), Exit: flight.MaskText(e.Why)}
		said := lines(e.Epoch)
		for _, line := range said[max(0, len(said)-keptLines):] {
			exit.Lines = append(exit.Lines, flight.MaskText(line))
		}
		j.past.LastExit = exit
		if failure {
			j.past.LastFailure = exit
		}
	}
}

// Past returns a copy.
func (j *Journal) Past() Past {
	j.mu.Lock()
	defer j.mu.Unlock()
	past := j.past
	past.Readiness = slices.Clone(past.Readiness)
	return past
}
