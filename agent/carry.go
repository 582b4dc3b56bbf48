package agent

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Carried is the state of a supervisor that another image of the agent goes on with: plain data, a copy.
type Carried struct {
	Desired  Config          `json:"Desired"`
	Good     Config          `json:"Good"`
	Refusal  CarriedRefusal  `json:"Refusal"`
	Epochs   []CarriedEpoch  `json:"Epochs"` // oldest first
	Families int             `json:"Families"`
	Handover CarriedHandover `json:"Handover"`
	Took     time.Duration   `json:"Took"`

	Failures int           `json:"Failures"`
	Saved    int           `json:"Saved"`
	Served   time.Duration `json:"Served"`
	RetryAt  time.Time     `json:"RetryAt"`
	Seed     uint64        `json:"Seed"`
	Drained  bool          `json:"Drained"`

	Counts map[Note]int  `json:"Counts"`
	Events []Event       `json:"Events"`
	Exits  []CarriedExit `json:"Exits"`           // of epochs that ended while the supervisor left
	Asked  Command       `json:"Asked,omitempty"` // Drain or Resume, the last one that came after that
}

// CarriedRefusal is a refusal.
type CarriedRefusal struct {
	Config Config    `json:"Config"`
	Reason string    `json:"Reason"`
	At     time.Time `json:"At"`
}

// CarriedEpoch is a living process.
type CarriedEpoch struct {
	Launch         Launch    `json:"Launch"`
	StartedAt      time.Time `json:"StartedAt"`
	LiveAt         time.Time `json:"LiveAt"`
	Idle           bool      `json:"Idle"`
	DrainedInbound bool      `json:"DrainedInbound"`
	Blind          bool      `json:"Blind"`
}

// CarriedHandover is a handover that has no newcomer yet.
type CarriedHandover struct {
	Stage  string    `json:"Stage"`
	Began  time.Time `json:"Began"`
	Due    time.Time `json:"Due"`
	Hot    bool      `json:"Hot"`
	Failed int       `json:"Failed"`
}

// CarriedExit is an exit that the supervisor has not judged.
type CarriedExit struct {
	Epoch int  `json:"Epoch"`
	Exit  Exit `json:"Exit"`
}

// Left is the error of Run after the command Leave: Envoy lives on, without a supervisor.
type Left struct{ Carried Carried }

func (l *Left) Error() string { return "Envoy is left to another image of the agent" }

// carry returns the state of a supervisor that may leave.
func (s state) carry(h *history) Carried {
	counts, events := h.copied()
	c := Carried{
		Desired: s.desired, Good: s.good, Refusal: CarriedRefusal{s.refusal.config, s.refusal.reason, s.refusal.at},
		Families: s.families, Took: s.took, Failures: s.failures, Saved: s.saved, Served: s.served, RetryAt: s.retryAt,
		Seed: s.seed, Drained: s.drained, Counts: counts, Events: events,
		Handover: CarriedHandover{string(s.handover.stage), s.handover.began, s.handover.due, s.handover.hot, s.handover.failed},
	}
	for _, e := range s.epochs {
		c.Epochs = append(c.Epochs, CarriedEpoch{e.Launch, e.startedAt, e.liveAt, e.idle, e.drainedInbound, e.blind})
	}
	return c
}

// ahead returns how much later than now the last handover or start was, by a clock that was set back since; 0 if it was not.
func (c Carried) ahead(now time.Time) time.Duration {
	last := c.Handover.Began
	for _, e := range c.Epochs {
		for _, at := range []time.Time{e.StartedAt, e.LiveAt} {
			if at.After(last) {
				last = at
			}
		}
	}
	return max(0, last.Sub(now))
}

// state returns the state to go on with. What was refused is checked again at once: the new image may see it otherwise. Where the clock
// was set back, all times are moved: no time lasts less than nothing, and nothing waits for longer than it was to.
func (c Carried) state(now time.Time) state {
	ahead := c.ahead(now)
	moved := func(at time.Time) time.Time {
		if at.Unix() < 0 { // unset
			return at
		}
		return at.Add(-ahead)
	}
	s := state{
		desired: c.Desired, good: c.Good, refusal: refusal{c.Refusal.Config, c.Refusal.Reason, c.Refusal.At},
		families: c.Families, took: c.Took, failures: c.Failures, saved: c.Saved, served: c.Served, retryAt: moved(c.RetryAt),
		seed: c.Seed, drained: c.Drained,
		handover: handover{stage: stage(c.Handover.Stage), began: moved(c.Handover.Began), due: moved(c.Handover.Due), hot: c.Handover.Hot, failed: c.Handover.Failed},
	}
	if s.handover.stage == refused {
		s.handover.due = now
	}
	for _, e := range c.Epochs {
		s.epochs = append(s.epochs, epoch{
			Launch: e.Launch, startedAt: moved(e.StartedAt), liveAt: moved(e.LiveAt), idle: e.Idle, drainedInbound: e.DrainedInbound, blind: e.Blind,
		})
	}
	return s
}

// Living returns the launches of the epochs that had not ended when the supervisor left.
func (c Carried) Living() []Launch {
	var out []Launch
	for _, e := range c.Epochs {
		if !slices.ContainsFunc(c.Exits, func(exit CarriedExit) bool { return exit.Epoch == e.Launch.Epoch }) {
			out = append(out, e.Launch)
		}
	}
	return out
}

func (c Carried) history() history {
	return history{counts: maps.Clone(c.Counts), events: slices.Clone(c.Events)}
}

// mostCarried is how many epochs a supervisor that leaves may have: no newcomer, and nothing that drains.
const mostCarried = 1

// Check returns an error for a state in which no supervisor leaves.
func (c Carried) Check() error {
	switch {
	case len(c.Epochs) > mostCarried:
		return fmt.Errorf("%d epochs, want at most %d", len(c.Epochs), mostCarried)
	case !mayLeave(stage(c.Handover.Stage)):
		return fmt.Errorf("handover stage %q", c.Handover.Stage)
	case c.Failures < 0 || c.Saved < 0 || c.Served < 0 || c.Families < 0 || c.Took < 0 || c.Handover.Failed < 0:
		return fmt.Errorf("a count below zero: failures %d, saved %d, served %d, families %d, took %d, failed newcomers %d",
			c.Failures, c.Saved, c.Served, c.Families, c.Took, c.Handover.Failed)
	case len(c.Events) > keptEvents:
		return fmt.Errorf("%d events, want at most %d", len(c.Events), keptEvents)
	case !slices.Contains([]Command{Nothing, Drain, Resume}, c.Asked):
		return fmt.Errorf("the command %q", c.Asked)
	case len(c.Epochs) == 0 && c.RetryAt.IsZero() && len(c.Exits) == 0:
		return fmt.Errorf("no epoch, and no start planned")
	}
	for note, n := range c.Counts {
		if !slices.Contains(Notes(), note) || n < 0 {
			return fmt.Errorf("%d times the event %q", n, note)
		}
	}
	for _, e := range c.Epochs {
		if e.LiveAt.IsZero() || e.Launch.Epoch < 0 || e.Launch.Restart < 0 || e.Launch.Family < 0 || e.Launch.Family >= c.Families {
			return fmt.Errorf("epoch %d of family %d with restart epoch %d, live at %s, of %d families",
				e.Launch.Epoch, e.Launch.Family, e.Launch.Restart, e.LiveAt, c.Families)
		}
	}
	for i, e := range c.Exits {
		if slices.ContainsFunc(c.Exits[:i], func(before CarriedExit) bool { return before.Epoch == e.Epoch }) {
			return fmt.Errorf("two exits of epoch %d", e.Epoch)
		}
		if !slices.ContainsFunc(c.Epochs, func(of CarriedEpoch) bool { return of.Launch.Epoch == e.Epoch }) {
			return fmt.Errorf("an exit of epoch %d, which did not run", e.Epoch)
		}
	}
	return nil
}

// leavePatience is how long the command Leave waits, beside the longest handover.
const leavePatience = 30 * time.Second

func mayLeave(s stage) bool { return slices.Contains([]stage{"", quiet, gated, refused}, s) }

// underWay returns what has to end before the supervisor may leave; empty for nothing. What waits for a time is no reason: the
// times are carried.
func (d *decision) underWay() string {
	newest := d.newest()
	switch {
	case d.families == 0:
		return "no Envoy has been started yet"
	case !mayLeave(d.handover.stage):
		return "a handover is under way: " + string(d.handover.stage)
	case len(d.epochs) > mostCarried:
		return "a replaced Envoy drains"
	case newest == nil && d.retryAt.IsZero():
		return "no Envoy runs"
	case newest == nil:
		return ""
	case newest.draining:
		return "a replaced Envoy drains"
	case newest.killed:
		return "Envoy is being replaced"
	case newest.liveAt.IsZero():
		return "Envoy is starting"
	case d.now.Before(d.held):
		return "a parent that ended early is stood in for"
	}
	return ""
}

// leave takes the command to leave.
func (d *decision) leave() {
	d.leaveBy = d.now.Add(d.HandoverTimeout + d.ParentShutdown + parentGrace + leavePatience)
}

// advanceLeave leaves once nothing is under way, and gives up when it was patient enough.
func (d *decision) advanceLeave() {
	if d.leaveBy.IsZero() {
		return
	}
	switch why := d.underWay(); {
	case why == "":
		d.leaveBy = time.Time{}
		d.do(leave{})
	case d.due(d.leaveBy):
		d.leaveBy = time.Time{}
		d.note(Stayed, -1, why)
	}
}
