package agent

import "time"

// Status is the state of the supervisor for its callers: a copy, free to keep. It holds no bootstrap, since a bootstrap may
// hold secrets.
type Status struct {
	Epochs   []EpochStatus `json:"epochs"`             // oldest first
	Handover string        `json:"handover,omitempty"` // stage of the current one
	Took     time.Duration `json:"last_handover_ns"`   // from its first change until the newcomer was live
	Refusal  *Refused      `json:"refusal,omitempty"`  // why the desired configuration does not run
	Failures int           `json:"failures"`           // not forgiven yet for served time
	Budget   int           `json:"budget"`             // how many failures are retried: more after long service
	RetryAt  *time.Time    `json:"retry_at,omitempty"` // when the next epoch starts
	Drained  bool          `json:"drained"`            // it serves, but is to receive no new work
	Stopping bool          `json:"stopping"`
	GaveUp   string        `json:"gave_up,omitempty"` // why, when it stops by its own decision
	Counts   map[Note]int  `json:"counts"`            // since the supervisor started
	Events   []Event       `json:"events"`            // the last ones, oldest first
}

// EpochStatus is one living process.
type EpochStatus struct {
	Epoch     int        `json:"epoch"`
	Family    int        `json:"family"`        // of one base-id, numbered from 0
	Restart   int        `json:"restart_epoch"` // Envoy's own number in the family
	State     string     `json:"state"`         // starting, serving or draining
	StartedAt time.Time  `json:"started_at"`
	LiveAt    *time.Time `json:"live_at,omitempty"`
}

// Refused holds the reason why the desired configuration does not run, and since when.
type Refused struct {
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

func (s state) status(h *history, c Settings) Status {
	counts, events := h.copied()
	out := Status{
		Handover: string(s.handover.stage),
		Took:     s.took,
		Failures: s.failures,
		Budget:   c.RestartBudget + s.saved,
		RetryAt:  optional(s.retryAt),
		Drained:  s.outOfService(),
		Stopping: s.stopping.stage != notStopping,
		Counts:   counts,
		Events:   events,
	}
	if s.stopping.gaveUp != nil {
		out.GaveUp = s.stopping.gaveUp.Error()
	}
	if s.refusal != (refusal{}) {
		out.Refusal = &Refused{s.refusal.reason, s.refusal.at}
	}
	for _, e := range s.epochs {
		out.Epochs = append(out.Epochs, EpochStatus{e.Epoch, e.Family, e.Restart, e.state(), e.startedAt, optional(e.liveAt)})
	}
	return out
}

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (e epoch) state() string {
	switch {
	case e.draining:
		return "draining"
	case e.liveAt.IsZero():
		return "starting"
	}
	return "serving"
}
