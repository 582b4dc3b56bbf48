package status

import (
	"slices"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/flight"
)

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
